import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'

const key = '-----BEGIN KEY-----\nMIIB"quoted"\\back\n-----END KEY-----'
const hook = 'https://bridge:s3cr%20et-pass@hooks.example/in'

/** Everything that a careless plugin may do with a secret, but answer it. */
const careless = definePlugin({
  name: 'careless',
  summary: 'Tells the log too much.',
  env: {
    CARELESS_KEY: z.string().meta({ secret: true }),
    CARELESS_HOOK: z.string().meta({ secret: true }),
    CARELESS_TOKEN: z.string().meta({ secret: true }),
  },
  routes: {
    'POST /tell': {
      auth: 'public',
      input: z.object({ how: z.enum(['field', 'sentence', 'json', 'address', 'error', 'text']) }),
      run({ how }, { env, log }) {
        const { CARELESS_KEY, CARELESS_HOOK, CARELESS_TOKEN } = env
        const all = { CARELESS_KEY, CARELESS_HOOK, CARELESS_TOKEN }
        if (how === 'field') log.warn({ all }, 'told')
        if (how === 'sentence') log.warn(`told ${Object.values(all).join(' ')}`)
        if (how === 'json') log.warn(`told ${JSON.stringify(all)}`)
        if (how === 'address')
          log.warn(
            `told https://x.example/?${new URLSearchParams(all)} ${encodeURIComponent(CARELESS_TOKEN)}`,
          )
        if (how === 'error')
          throw new Error(`told ${JSON.stringify(all)}`, {
            cause: new Error(`told ${CARELESS_KEY}`),
          })
        if (how === 'text') throw `told s3cr et-pass and ${CARELESS_TOKEN}`
        return {}
      },
    },
  },
})

const ways = ['field', 'sentence', 'json', 'address', 'error', 'text']

it.each(['development', 'production'])(
  'secrets do not get into the log, however they are written: %s',
  async (NODE_ENV) => {
    const app = await testApp({
      plugins: [careless],
      env: {
        NODE_ENV,
        CARELESS_KEY: key,
        CARELESS_HOOK: hook,
        CARELESS_TOKEN: 'to/ken+with=signs',
      },
    })
    onTestFinished(() => app.close())
    for (const how of ways) {
      const before = app.log.length
      const { body } = await app.post('/tell', { how })
      const told = app.log.slice(before).join('\n')
      expect([how, told]).toEqual([how, expect.stringContaining('told')])
      expect([how, told]).toEqual([how, expect.stringContaining('[secret]')])
      for (const part of ['MIIB', 'BEGIN KEY', 's3cr', 'ken+with', 'ken%2Bwith', 'to%2Fken'])
        expect([how, `${told}${JSON.stringify(body)}`]).toEqual([
          how,
          expect.not.stringContaining(part),
        ])
    }
  },
)

it('an error that throws when it is read fails nobody who logs it', async () => {
  const unreadable: unknown = Object.create(Error.prototype, {
    message: { get: () => JSON.parse('{') },
  })
  const plugin = definePlugin({
    name: 'odd',
    summary: 'Throws odd things.',
    visibility: 'always',
    prompt: () => Promise.reject(unreadable),
    routes: { 'GET /odd': { auth: 'public', run: () => Promise.reject(unreadable) } },
  })
  await using app = await testApp({ plugins: [plugin], model: scriptedModel(['Well.']) })
  expect(await app.get('/odd')).toMatchObject({ status: 500, body: { code: 'INTERNAL' } })
  expect(await (await app.user()).say('Hello')).toMatchObject({ status: 'finished', text: 'Well.' })
  expect(app.log.join('\n')).toContain('What was thrown cannot be read.')
})
