import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import gateway from './index.ts'

it('leaves query_ledger out of an app that has no upstream, and names the variable', async () => {
  await using app = await testApp({ plugins: [gateway] })
  expect(app.report.plugins[0]).toMatchObject({ state: 'excluded', missing: ['GATEWAY_UPSTREAM'] })
  expect(app.thread().tools).not.toContain('query_ledger')
})

it('stays pending while nobody answers at the upstream, and serves 503 under its prefix meanwhile', async () => {
  await using app = await testApp({
    plugins: [gateway],
    env: {
      GATEWAY_UPSTREAM: '127.0.0.1:1',
      GATEWAY_REFLECTION: 'true',
      GATEWAY_PREFIX: '/ledger/',
    },
  })
  expect(app.report.plugins[0]?.state).toBe('pending')
  // On a busy machine its setup may still be under way when the server answers.
  await expect.poll(async () => (await app.get('/elsewhere')).status).toBe(404)
  const { status, body, headers } = await app.get('/ledger/token/params')
  expect(status).toBe(503)
  expect(headers.get('retry-after')).toBe('2')
  expect(body).toEqual({
    code: 14,
    message: 'The gateway does not know its upstream yet.',
    details: [],
  })
})

it('is left out without a word about where descriptors come from, and the rest boots', async () => {
  await using app = await testApp({ plugins: [gateway], env: { GATEWAY_UPSTREAM: '127.0.0.1:1' } })
  expect(app.report.plugins[0]).toMatchObject({
    state: 'excluded',
    reason: expect.stringMatching(
      /^Plugin query-gateway env validation failed for GATEWAY_DESCRIPTORS\. Set GATEWAY_DESCRIPTORS /,
    ),
  })
  expect((await app.get('/health')).status).toBe(200)
  const forced = { GATEWAY_UPSTREAM: '127.0.0.1:1', FEATURES: 'query-gateway=on' }
  await expect(testApp({ plugins: [gateway], env: forced })).rejects.toThrow('GATEWAY_DESCRIPTORS')
})
