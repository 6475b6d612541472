import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { definePlugin } from '#core'
import { testApp, type TestApp } from '#core/testing'

const bridge = definePlugin({
  name: 'bridge',
  summary: 'Has a route for operators.',
  routes: { 'GET /bridge': { auth: 'operator', run: (_, { caller }) => ({ caller }) } },
})
const start = (env: Record<string, string> = {}) =>
  testApp({ plugins: [bridge], env: { OPERATOR_TOKEN: 'only-operators-know', ...env } })

/** By Node's own client, which sends every header as it stands. */
function ask(app: TestApp, headers: Record<string, string | string[]> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const { port, host } = new URL(app.url)
    const sent = { Host: host, ...headers }
    request({ host: '127.0.0.1', port, path: '/bridge', headers: sent, agent: false }, (res) =>
      resolve(res.resume().statusCode ?? 0),
    )
      .on('error', reject)
      .end()
  })
}

describe('in development an operator route is open to this machine', () => {
  test('and asks everybody else for the token', async () => {
    await using app = await start()
    const { port } = new URL(app.url)
    for (const Host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`, 'LOCALHOST'])
      expect(await ask(app, { Host }), Host).toBe(200)
    expect(await ask(app, { Origin: app.url })).toBe(200)
  })

  const passedOn = [
    'Forwarded',
    'Via',
    'X-Real-IP',
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'X-Forwarded-Proto',
    'X-Forwarded-Port',
    'X-Forwarded-Server',
    'X-Forwarded-Prefix',
    'X-Forwarded-Whatever-Comes-Next',
    'X-Forwarded',
    'X-Original-Forwarded-For',
    'X-Original-Host',
    'X-Original-URL',
    'X-Rewrite-URL',
    'X-Client-IP',
    'X-Cluster-Client-IP',
    'X-Envoy-External-Address',
    'CF-Connecting-IP',
    'True-Client-IP',
    'Fastly-Client-IP',
    'Fly-Client-IP',
    'CDN-Loop',
    'X-Azure-ClientIP',
    'Tailscale-User-Login',
  ]
  test.each(passedOn)('unless the request was passed on: %s', async (header) => {
    await using app = await start()
    for (const value of ['127.0.0.1', 'for=127.0.0.1;host=localhost', '1.1 proxy', ''])
      expect(await ask(app, { [header]: value }), value).toBe(401)
    expect(await ask(app, { [header.toUpperCase()]: '127.0.0.1' })).toBe(401)
    expect(
      await ask(app, { [header]: '127.0.0.1', Authorization: 'Bearer only-operators-know' }),
    ).toBe(200)
  })

  test('unless it names another host or comes from another page', async () => {
    await using app = await start()
    const { port } = new URL(app.url)
    for (const Host of [
      'evil.example',
      `evil.example:${port}`,
      `localhost.evil.example:${port}`,
      `127.0.0.1.evil.example`,
      '0.0.0.0',
      '10.0.0.1',
    ])
      expect(await ask(app, { Host }), Host).toBe(401)
    for (const Origin of ['null', 'https://evil.example', `http://evil.example:${port}`])
      expect(await ask(app, { Origin }), Origin).toBe(401)
    expect(await ask(app, { 'Sec-Fetch-Site': 'cross-site' })).toBe(401)
  })

  test('and TRUST_PROXY_ENABLED opens no more of it', async () => {
    await using app = await start({ TRUST_PROXY_ENABLED: 'true' })
    expect(await ask(app)).toBe(200)
    for (const header of ['X-Forwarded-For', 'X-Real-IP', 'Forwarded'])
      expect(await ask(app, { [header]: '127.0.0.1' }), header).toBe(401)
  })
})

test.each(['test', 'production'])('with NODE_ENV=%s the token alone opens it', async (NODE_ENV) => {
  await using app = await start({ NODE_ENV })
  expect(await ask(app)).toBe(401)
  expect(await ask(app, { Authorization: 'Bearer only-operators-know' })).toBe(200)
})
