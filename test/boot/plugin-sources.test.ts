import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'

const named = (name: string) => definePlugin({ name, summary: `The one called ${name}.` })
const env = {
  ORACLE_MNEMONIC: 'words of the test of sources',
  OPERATOR_TOKEN: 'operates-this-test',
}

it('an entry of the plugins may be a function of the environment', async () => {
  const app = await testApp({
    plugins: [named('first'), async ({ NAMES = '' }) => NAMES.split(',').map(named), () => []],
    env: { ...env, NAMES: 'second,third' },
  })
  onTestFinished(() => app.close())
  const { plugins } = (await app.get('/health')).body
  expect(Object.keys(plugins)).toEqual(expect.arrayContaining(['first', 'second', 'third']))
})

it('what such a function throws stops the boot, and says what is wrong', async () => {
  const broken = () => {
    throw new Error('there is no such file')
  }
  await expect(testApp({ plugins: [broken], env })).rejects.toThrow(
    'A function of "plugins" failed: there is no such file',
  )
  const own = () => {
    throw new RuntimeError('ENV_INVALID', 'NAMES is no list.')
  }
  await expect(testApp({ plugins: [own], env })).rejects.toThrow('NAMES is no list.')
  // What the function makes is looked at as any other plugin is.
  await expect(testApp({ plugins: [() => [named('No Name')]], env })).rejects.toThrow()
})

const archive = definePlugin({
  name: 'archive',
  summary: 'Old papers.',
  can: 'archive/open',
  tools: {
    read_paper: {
      description: 'Reads a paper.',
      effect: 'read',
      input: z.object({}),
      run: () => 'old',
    },
  },
})

it('a plugin that asks for a right is seen, loaded and called by those alone who have it', async () => {
  const model = scriptedModel([
    ...[call('load_capability', { names: ['archive'] }), call('read_paper'), 'No.'],
    ...[call('load_capability', { names: ['archive'] }), call('read_paper'), 'Yes.'],
    ...[call('read_paper'), 'Not any more.'],
  ])
  const app = await testApp({ plugins: [archive], model, env })
  onTestFinished(() => app.close())
  const user = await app.user()
  const last = () => model.requests.at(-1)
  const outcome = (said: Awaited<ReturnType<typeof user.say>>) =>
    said.of('tool_call').findLast(({ toolName }) => toolName === 'read_paper')?.status

  const stranger = await user.say('Go')
  expect(String(last()?.messages[0]?.content)).not.toContain('Old papers.')
  expect(outcome(stranger)).toBe('error')
  const { sessionId } = stranger
  const loading = () => user.post(`/sessions/${sessionId}/capabilities`, { names: ['archive'] })
  expect((await loading()).body.unknown).toMatchObject([{ name: 'archive' }])

  const operator = { authorization: `Bearer ${env.OPERATOR_TOKEN}` }
  const grant = { did: user.did, capabilities: ['archive/open'] }
  const granted = await app.post('/grants', grant, operator)
  expect(granted.status).toBe(201)
  const known = await user.say('Go', { sessionId })
  expect(String(last()?.messages[0]?.content)).toContain('Old papers.')
  expect(outcome(known)).toBe('done')

  await app.delete(`/grants/${granted.body.id}`, { headers: operator })
  const revoked = await user.say('Go', { sessionId })
  expect(last()?.tools.map(({ name }) => name)).not.toContain('read_paper')
  expect(outcome(revoked)).toBe('error')
})
