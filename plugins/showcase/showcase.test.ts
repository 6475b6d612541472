import { afterAll, expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import showcase from './index.ts'
import { states } from './scenes.ts'

const env = { SHOWCASE_PACE: '0', FEATURES: 'showcase=on' }
const app = await testApp({ plugins: [showcase], model: scriptedModel([]), env })
afterAll(() => app.close())
const user = await app.user()
const show = (state: string, more: object = {}) =>
  user.say(`/show ${state}`, { approvals: true, ...more })
/** How the turn ended; the status of the answer where it failed before its first word. */
const endOf = async (state: string, more: object = {}) => {
  try {
    return (await show(state, more)).status
  } catch (error) {
    return /answered (\d+)/.exec(String(error))?.[1] ?? String(error)
  }
}

it('shows each state from its beginning to an end, whatever the model is', async () => {
  const ends: Record<string, string> = {}
  for (const state of states) ends[state] = await endOf(state)
  const others: Record<string, string> = {
    approval: 'waiting',
    payment: '402',
    'too-long': 'failed',
    'model-error': '502',
    cut: 'failed',
  }
  expect(ends).toEqual(
    Object.fromEntries(states.map((state) => [state, others[state] ?? 'finished'])),
  )
  expect((await user.get('/showcase')).body).toEqual({ states })
})

it('lists its states for /show alone and for one that it does not know', async () => {
  for (const words of ['/show', ' /show toString ', '/show me the way']) {
    const { text, status } = await user.say(words)
    expect(status).toBe('finished')
    for (const state of states) expect(text).toContain(`/show ${state}`)
  }
})

it('has real tools: progress, a fault, a component, three at once, a sub-agent', async () => {
  const progress = await show('progress')
  expect(progress.tools).toEqual(['load_capability', 'read_meters'])
  expect(progress.of('progress').map(({ done, total }) => [done, total])).toEqual(
    [1, 2, 3, 4, 5, 6].map((nth) => [nth, 6]),
  )
  expect(progress.text).toBe(
    'I read the meters one after the other.All six meters of Kafue are read.',
  )
  const fault = (await show('tool-error')).of('tool_call').at(-1)
  expect(fault).toMatchObject({ status: 'error', toolName: 'break_down' })
  const component = await show('component')
  expect(component.tools).toContain('show_card')
  expect(component.of('render_component')[0]).toMatchObject({ componentName: 'WeatherCard' })
  expect((await show('parallel')).tools.filter((name) => name === 'count_wells')).toHaveLength(3)
  const helper = await show('sub-agent')
  expect(helper.tools).toContain('count_wells')
  expect(helper.of('tool_call').at(-1)).toMatchObject({
    toolName: 'call_surveyor',
    output: expect.stringContaining('wells of Kafue'),
  })
})

it('keeps what it said, thoughts and what came before a fault included', async () => {
  const thought = await show('thinking')
  expect(thought.of('reasoning').length).toBeGreaterThan(0)
  const cut = await show('cut')
  const history = async (sessionId: string) =>
    (await user.get(`/messages/${sessionId}`)).body.messages.at(-1)
  expect(await history(thought.sessionId)).toMatchObject({
    content: expect.stringContaining('7,412 litres'),
    reasoning: expect.stringContaining('read twice'),
  })
  expect(await history(cut.sessionId)).toMatchObject({
    content: expect.stringMatching(/in the middle of a sen$/),
    isComplete: false,
    ended: 'failed',
  })
})

it('asks before the write, takes another day, refuses one that is none', async () => {
  const said = await show('approval')
  expect(said.tools.at(-1)).toBe('send_invitation')
  const wrong = { to: 'amina@example.org', day: 'tomorrow', seats: 2 }
  await expect(said.approve(wrong)).rejects.toThrow('400')
  const rest = await said.approve({ to: 'ben@example.org', day: '2027-01-31', seats: 3 })
  expect(rest.status).toBe('finished')
  expect(rest.of('tool_call').at(-1)).toMatchObject({
    output: expect.stringContaining('{"invited":"ben@example.org","day":"2027-01-31","seats":3}'),
  })
})

it('wants two claims paid, and answers once they are', async () => {
  expect(await endOf('payment')).toBe('402')
  const paid = await user.post('/showcase/pay', { claimIds: ['show-1', 'show-2'] })
  expect(paid.body).toEqual({ paid: ['show-1', 'show-2'] })
  expect((await show('payment')).text).toContain('It is paid')
  expect(await endOf('payment')).toBe('402')
})

it('is off in production, where the words are words', async () => {
  await using production = await testApp({
    plugins: [showcase],
    model: scriptedModel(['I do not know.']),
    env: { NODE_ENV: 'production', ORACLE_MNEMONIC: 'words of one oracle' },
  })
  const said = await (await production.user()).say('/show markdown')
  expect(said.text).toBe('I do not know.')
  expect((await production.get('/showcase')).status).toBe(404)
})
