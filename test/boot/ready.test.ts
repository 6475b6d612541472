import { expect, it } from 'vitest'
import { createApp, definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'

it('onReady runs once, when all setups have returned, the pending work of the plugin is done and the server answers', async () => {
  const [load, setup] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const said: string[] = []
  const search = definePlugin({
    name: 'search',
    summary: 's',
    setup({ pending, onReady, oracle }) {
      pending(load.promise, 'loading')
      onReady(async (signal) => {
        const answer = await fetch(`${oracle.url()}/here`, { signal })
        said.push(`search: ${await answer.text()}`)
      })
    },
    routes: { 'GET /here': { auth: 'public', run: () => 'served' } },
  })
  const quick = definePlugin({
    name: 'quick',
    summary: 'q',
    setup: ({ onReady }) => onReady(() => void said.push('quick')),
  })
  const slow = definePlugin({ name: 'slow', summary: 's', setup: () => setup.promise })
  await using app = await testApp({ plugins: [search, quick, slow] })
  expect((await app.get('/')).status).toBe(200)
  expect(said).toEqual([])
  setup.resolve()
  await expect.poll(() => said).toEqual(['quick'])
  load.resolve()
  await expect.poll(() => said).toEqual(['quick', 'search: "served"'])
  expect((await app.get('/health')).body).toMatchObject({ status: 'ok' })
})

it('onReady starts a turn', async () => {
  let reply = ''
  const greeter = definePlugin({
    name: 'greeter',
    summary: 'g',
    visibility: 'always',
    setup({ onReady, turns }) {
      onReady(async (signal) => {
        const turn = { user: { did: 'did:key:zAmina' }, message: 'Good morning', signal }
        for await (const { event, data } of turns.start(turn))
          if (event === 'message') reply += data.content
      })
    },
  })
  await using _ = await testApp({ plugins: [greeter], model: scriptedModel(['A new day.']) })
  await expect.poll(() => reply).toBe('A new day.')
})

it('a function of onReady that throws stands in the log and in /health, and stops nothing', async () => {
  const said: string[] = []
  const torn = definePlugin({
    name: 'torn',
    summary: 't',
    setup({ onReady }) {
      onReady(() => {
        throw new Error('the diary is locked')
      })
      onReady(() => void said.push('the second'))
    },
    routes: { 'GET /torn': { auth: 'public', run: () => 'served' } },
  })
  await using app = await testApp({ plugins: [torn] })
  await expect
    .poll(async () => (await app.get('/health')).body)
    .toMatchObject({
      status: 'degraded',
      plugins: { torn: 'degraded' },
      notes: [{ plugin: 'torn', check: 'onReady failed: the diary is locked' }],
    })
  expect(said).toEqual(['the second'])
  expect((await app.get('/torn')).body).toBe('served')
  expect(app.log.filter((line) => line.includes('onReady of torn failed'))).toHaveLength(1)
})

it('onReady of a plugin whose pending work failed does not run, and its signal fires when the server closes', async () => {
  const said: string[] = []
  const failed = definePlugin({
    name: 'failed',
    summary: 'f',
    setup({ pending, onReady }) {
      pending(Promise.reject(new Error('no')), 'loading')
      onReady(() => void said.push('failed'))
    },
  })
  const waiting = definePlugin({
    name: 'waiting',
    summary: 'w',
    setup({ onReady, onClose }) {
      onReady(async (signal) => {
        said.push('began')
        await new Promise((_, reject) =>
          signal.addEventListener('abort', () => {
            said.push('told to stop')
            reject(signal.reason)
          }),
        )
      })
      onClose(() => void said.push('closed'))
    },
  })
  const app = await testApp({ plugins: [failed, waiting] })
  await expect.poll(() => said).toEqual(['began'])
  await app.close()
  expect(said).toEqual(['began', 'told to stop', 'closed'])
  expect(app.log.join('')).not.toContain('onReady of waiting failed')
})

it('onReady does not run in an app that does not listen, as with npm run inspect', async () => {
  let runs = 0
  const counted = definePlugin({
    name: 'counted',
    summary: 'c',
    setup: ({ onReady }) => onReady(() => void runs++),
  })
  const env = { DATA_DIR: ':memory:', LOG_LEVEL: 'silent' }
  const app = await createApp({ plugins: [counted], env })
  await new Promise(setImmediate)
  await app.close()
  expect(runs).toBe(0)
})
