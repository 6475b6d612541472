import { expect, test } from 'vitest'
import { call as calling, type ScriptedStep } from '#core/testing'
import { asksFirst } from '../../../../test/support/asks-first.ts'
import { callApp, type CallAppOptions } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'

const patient = { timeout: 30_000, interval: 20 }
const long = Array.from({ length: 40 }, (_, i) => `Sentence ${i} goes on.`).join(' ')

async function begin(steps: readonly ScriptedStep[], options: CallAppOptions = {}) {
  const made = await callApp(steps, options)
  const { page, callId } = await call(made.user, made.sessionId)
  let number = 0
  const say = (text: string) => page.send({ type: 'say', id: `s${++number}`, text })
  const state = () => page.of('state').at(-1)?.state
  return { ...made, page, callId, say, state }
}

/** A call in which the agent begins to ask for a decision. */
async function begun(answers: readonly ScriptedStep[], question?: string) {
  const { plugin, seen } = asksFirst(question)
  const made = await begin([calling('pay', { amount: 5 }), ...answers], { plugins: [plugin] })
  made.say('Pay the rent.')
  await expect
    .poll(() => made.page.of('approval'), patient)
    .toMatchObject([{ toolName: 'pay', args: { amount: 5 } }])
  await expect.poll(() => made.page.beeps, patient).toBeGreaterThan(5) // it is asked aloud
  const runId = made.page.of('approval')[0]?.runId ?? ''
  const decide = (decision: string) => made.user.post(`/runs/${runId}/resume`, { decision })
  return { ...made, seen, decide }
}

/** A call in which the agent has asked, and waits. */
async function asked(answers: readonly ScriptedStep[], question?: string) {
  const made = await begun(answers, question)
  await expect.poll(made.state, patient).toBe('waiting')
  return made
}

test('a spoken yes decides nothing; a decision on any page is heard, and the result is said', async () => {
  const { page, say, seen, decide, model, state } = await asked(['It is paid.'])
  for (const yes of ['Yes.', 'OK']) {
    const before = page.said.length
    const spoken = () => page.of('state').filter(({ state }) => state === 'speaking').length
    const spokenBefore = spoken()
    say(yes)
    await expect.poll(() => page.said.slice(before), patient).toMatch(/decide on the page first/i)
    await expect.poll(spoken, patient).toBe(spokenBefore + 1)
    await expect.poll(state, patient).toBe('waiting')
  }
  await expect.poll(state, patient).toBe('waiting')
  expect([seen.paid, model.requests.length]).toEqual([0, 1])
  expect((await decide('approve')).status).toBe(200)
  await expect.poll(() => page.said.endsWith('It is paid.'), patient).toBe(true)
  expect(page.of('decided')).toHaveLength(1)
  expect([seen.paid, model.requests.length]).toEqual([1, 2])
})

test('a tool that asks by a sentence of its own is asked for by it, aloud and in the frame', async () => {
  const question = 'Shall I pay five dollars to the landlord?'
  const { page, decide } = await asked(['It is paid.'], question)
  expect(page.of('approval')).toMatchObject([{ question }])
  expect(page.said).toContain(`${question} Please decide on the page.`)
  expect((await decide('approve')).status).toBe(200)
  await expect.poll(() => page.said.endsWith('It is paid.'), patient).toBe(true)
})

test('a spoken no rejects', async () => {
  const { page, say, seen, history } = await asked(['I leave it.'])
  say('No!')
  await expect.poll(() => page.said.endsWith('I leave it.'), patient).toBe(true)
  expect(seen.paid).toBe(0)
  expect((await history()).filter(({ type }) => type === 'human')).toHaveLength(1)
})

test('words that come while a decision is waited for are no decision, and are answered', async () => {
  const { page, say, seen, decide, model } = await asked(['First.', 'Second.'])
  say('What does it cost, and approve it?')
  await expect.poll(() => page.said.includes('decide on the page first'), patient).toBe(true)
  expect(seen.paid).toBe(0)
  const { status } = await decide('approve')
  if (status === 200) {
    await expect.poll(() => page.said.endsWith('Second.'), patient).toBe(true)
    expect(seen.paid).toBe(1)
    expect(model.requests).toHaveLength(3)
  }
  expect(status).toBe(200)
})

test('whoever hangs up leaves the question open, and decides in the chat', async () => {
  const { user, callId, seen, decide, history } = await asked(['It is paid.'])
  expect((await user.delete(`/calls/${callId}`)).status).toBe(200)
  expect(seen.paid).toBe(0)
  expect((await decide('approve')).status).toBe(200)
  await expect.poll(async () => (await history()).at(-1)?.content, patient).toBe('It is paid.')
  expect(seen.paid).toBe(1)
})

test('what is typed in another tab is said, what another session says is not, and a stop is a stop', async () => {
  const { app, user, sessionId, page, state } = await begin(['From the chat.', 'Elsewhere.', long])
  await user.say('Hello', { sessionId })
  await expect.poll(() => page.said, patient).toBe('From the chat.')
  await expect.poll(() => page.beeps, patient).toBe(3)
  await user.say('Hello')
  const turn = user.say('Tell me all', { sessionId })
  await expect.poll(() => page.beeps, patient).toBeGreaterThan(8)
  expect(page.said).not.toContain('Elsewhere')
  await turn
  expect([app.url !== '', state()]).toEqual([true, 'speaking'])
})

test('a stop in another tab is heard as one', async () => {
  const { user, sessionId, page, state } = await begin([
    { text: [long, ' And more.'], paceMs: 60_000 },
  ])
  const turn = user.say('Tell me all', { sessionId }).catch(() => undefined)
  await expect.poll(() => page.beeps, patient).toBeGreaterThan(8)
  const stopped = await user.post('/messages/abort', { sessionId })
  expect(stopped.status).toBeLessThan(300)
  await turn
  await expect.poll(state, patient).toBe('listening')
  const heard = page.beeps
  const from = page.levels.length
  await expect.poll(() => page.levels.length - from, patient).toBeGreaterThan(50)
  expect(page.beeps).toBeLessThanOrEqual(heard + 1)
})

test('a turn that fails says so in a sentence, and the next one is answered', async () => {
  const { page, say, callId, user } = await begin([
    new Error('secret stack of the provider'),
    'Better.',
  ])
  say('Hello')
  await expect.poll(() => page.of('notice').length, patient).toBe(1)
  expect(JSON.stringify(page.frames)).not.toContain('secret')
  await expect.poll(() => page.beeps, patient).toBeGreaterThan(2)
  say('Again')
  await expect.poll(() => page.said.endsWith('Better.'), patient).toBe(true)
  expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
})

test('a message typed in another tab takes the place of the question: it closes, and the answer is said', async () => {
  const { user, sessionId, page, seen, decide, state, history } = await asked(['Instead of it.'])
  const spoken = page.said
  await user.say('Something else.', { sessionId })
  await expect.poll(() => page.of('decided').length, patient).toBe(1)
  await expect.poll(() => page.said, patient).toBe(`${spoken}Instead of it.`)
  await expect.poll(state, patient).toBe('listening')
  // Nobody decides about it any more, and what it asked for is not done.
  expect((await decide('approve')).status).toBe(409)
  expect(seen.paid).toBe(0)
  expect((await history()).at(-1)?.content).toBe('Instead of it.')
})

test('words that wait for the decision are answered after the message that took its place', async () => {
  const { user, sessionId, page, say, seen, state } = await asked([
    'Instead of it.',
    'To the words.',
  ])
  say('What does it cost?')
  await expect.poll(() => page.said.includes('decide on the page first'), patient).toBe(true)
  await user.say('Something else.', { sessionId })
  await expect.poll(() => page.said.endsWith('Instead of it.To the words.'), patient).toBe(true)
  await expect.poll(state, patient).toBe('listening')
  expect([page.of('decided').length, seen.paid]).toEqual([1, 0])
})

test('a stop in another tab while the agent asks: it falls silent, the question closes, and the next words are answered', async () => {
  const question = `Shall I pay ${Array.from({ length: 40 }, (_, i) => `${i} dollars`).join(' and ')}?`
  const { user, sessionId, page, say, seen, decide, state } = await begun(['Next.'], question)
  expect((await user.post('/messages/abort', { sessionId })).status).toBeLessThan(300)
  await expect.poll(() => page.of('decided').length, patient).toBe(1)
  await expect.poll(state, patient).toBe('listening')
  const heard = page.beeps
  const from = page.levels.length
  await expect.poll(() => page.levels.length - from, patient).toBeGreaterThan(50)
  expect(page.beeps).toBeLessThanOrEqual(heard + 1)
  expect((await decide('approve')).status).toBe(409)
  say('Hello')
  await expect.poll(() => page.said.endsWith('Next.'), patient).toBe(true)
  expect(seen.paid).toBe(0)
})
