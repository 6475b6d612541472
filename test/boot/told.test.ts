import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type AnyPlugin, definePlugin, type WebModule } from '#core'
import { testApp } from '#core/testing'

const boot = async (plugins: readonly AnyPlugin[], env: Record<string, string> = {}) => {
  const app = await testApp({ plugins, env })
  onTestFinished(() => app.close())
  return app
}

const page: WebModule = (ctx) => void (ctx.body = 'export default () => {}')
const label = { en: 'Notes', fr: 'Notes' }

test('facts of plugins stand in the document of the oracle, and functions among them are asked each time', async () => {
  let asked = 0
  const notes = definePlugin({
    name: 'notes',
    summary: 'Keeps notes.',
    env: { NOTES_WORD: z.string().default('hello') },
    facts: ({ env }) => ({
      notes: { word: env.NOTES_WORD },
      counted: async () => ++asked,
      broken: () => Promise.reject(new Error('no such fact')),
      price: () => '1 a note',
    }),
  })
  const app = await boot([notes])
  const first = (await app.get('/.well-known/oracle.json')).body
  expect(first).toMatchObject({ notes: { word: 'hello' }, counted: 1, price: '1 a note' })
  expect(first).not.toHaveProperty('broken')
  expect(app.log.join('\n')).toContain('A fact of a plugin could not be told')
  expect((await app.get('/.well-known/oracle.json')).body.counted).toBe(2)

  const priced = await boot([notes], { ORACLE_PRICE: '5 a call' })
  expect((await priced.get('/.well-known/oracle.json')).body.price).toBe('5 a call')
})

test('two owners of a fact, and a key that the runtime tells itself, stop the boot', async () => {
  const telling = (name: string, facts: () => Record<string, unknown>) =>
    definePlugin({ name, summary: 'Tells.', facts })
  await expect(
    boot([telling('first', () => ({ terms: 1 })), telling('second', () => ({ terms: 2 }))]),
  ).rejects.toThrow(/Both first and second have the fact "terms"/)
  await expect(boot([telling('liar', () => ({ did: 'did:key:me' }))])).rejects.toThrow(
    /"facts" has "did", which the runtime tells itself/,
  )
})

test('headers of plugins may be sent and read by pages of other origins', async () => {
  const paying = definePlugin({
    name: 'paying',
    summary: 'Pays.',
    headers: { allow: ['PAYMENT-SIGNATURE'], expose: ['PAYMENT-REQUIRED'] },
  })
  const shown = definePlugin({
    name: 'shown',
    summary: 'Shows what was paid.',
    headers: { allow: ['PAYMENT-SIGNATURE', 'X-Shown'], expose: ['ETag'] },
  })
  const app = await boot([paying, shown])
  const origin = 'https://page.example'
  const preflight = await fetch(`${app.url}/health`, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'GET' },
  })
  const allowed = preflight.headers.get('access-control-allow-headers')?.split(', ')
  expect(allowed).toEqual(
    expect.arrayContaining(['PAYMENT-SIGNATURE', 'X-Shown', 'Idempotency-Key']),
  )
  const answer = await fetch(`${app.url}/health`, { headers: { origin } })
  const exposed = answer.headers.get('access-control-expose-headers')?.split(', ')
  expect(exposed).toEqual(
    expect.arrayContaining(['PAYMENT-REQUIRED', 'Retry-After', 'Idempotency-Replayed']),
  )
  for (const names of [allowed, exposed]) expect(names).toEqual([...new Set(names)])
  await expect(
    boot([definePlugin({ name: 'wrong', summary: 'Wrong.', headers: { allow: ['*'] } })]),
  ).rejects.toThrow(/"\*", which is no name of a header/)
})

test('views are listed in their order, with the state of their plugin and what mends it', async () => {
  const notes = definePlugin({
    name: 'notes',
    summary: 'Keeps notes.',
    web: { '/notes': page },
    views: {
      notes: { label, module: '/notes/view.js' },
      'notes-below': { label, module: '/notes/view.js', within: 'answer' },
    },
  })
  const early = definePlugin({
    name: 'early',
    summary: 'Comes first.',
    env: { EARLY_ADDRESS: z.string() },
    web: { '/early': page },
    views: { early: { label, module: '/early/view.js', order: 1, feature: 'operator' } },
  })
  const app = await boot([notes, early])
  const { status, body } = await app.get('/views')
  expect(status).toBe(200)
  expect(body.views).toEqual([
    {
      name: 'early',
      plugin: 'early',
      label,
      module: '/early/view.js',
      state: 'excluded',
      reason: expect.stringContaining('EARLY_ADDRESS'),
      feature: 'operator',
    },
    { name: 'notes', plugin: 'notes', label, module: '/notes/view.js', state: 'available' },
    {
      name: 'notes-below',
      plugin: 'notes',
      label,
      module: '/notes/view.js',
      state: 'available',
      within: 'answer',
    },
  ])
})

test('two owners of a view, and a module outside of the plugin’s web modules, stop the boot', async () => {
  const seen = (name: string, module: `/${string}`) =>
    definePlugin({
      name,
      summary: 'Is seen.',
      web: () => ({ [`/${name}`]: page }),
      views: { same: { label, module } },
    })
  await expect(boot([seen('one', '/one/view.js'), seen('two', '/two/view.js')])).rejects.toThrow(
    /Both one and two have the view "same"/,
  )
  await expect(boot([seen('one', '/two/view.js')])).rejects.toThrow(
    /\/two\/view\.js of the view "same" lies outside of the plugin's web modules/,
  )
  for (const module of [
    '/one/../view.js',
    '//elsewhere.example/view.js',
    'data:text/javascript,0',
    'https://elsewhere.example/view.js',
  ])
    await expect(boot([seen('one', module as `/${string}`)])).rejects.toThrow(
      /"views\.same\.module" is/,
    )
})
