import { expect, test } from 'vitest'
import { edge } from '../support/edge.ts'

const trusting = { limits: { ratePerMinute: 9, trustProxy: true } }

test.each([
  ['198.51.100.1', '198.51.100.1'],
  ['6.6.6.6, 198.51.100.1', '198.51.100.1'],
  ['6.6.6.6,198.51.100.1 ', '198.51.100.1'],
  ['198.51.100.1:4711', '198.51.100.1'],
  ['[2001:db8::7]:443', '2001:db8::7'],
  ['2001:db8::7', '2001:db8::7'],
  ['::ffff:198.51.100.1', '198.51.100.1'],
  ['unknown', '127.0.0.1'],
  ['', '127.0.0.1'],
  ['198.51.100.1,', '127.0.0.1'],
  ['198.51.100.1, _hidden', '127.0.0.1'],
  ['198.51.100.999', '127.0.0.1'],
  ['[', '127.0.0.1'],
  ['1.2.3.4.5', '127.0.0.1'],
])('behind a trusted proxy that forwards %j a client is %s', async (forwarded, address) => {
  const server = await edge(
    { 'GET /ip': { auth: 'public', run: (_, { caller }) => caller } },
    trusting,
  )
  const headers = { 'X-Forwarded-For': forwarded }
  expect((await server.call('GET', '/ip', { headers })).json).toBe(address)
})

test('a handler and Koa see the same address', async () => {
  const route = {
    auth: 'public' as const,
    run: (_: unknown, ctx: { caller: string; koa: { ip: string } }) => [ctx.caller, ctx.koa.ip],
  }
  const proxied = await edge({ 'GET /ip': route }, trusting)
  const direct = await edge({ 'GET /ip': route })
  const headers = { 'X-Forwarded-For': '6.6.6.6, 198.51.100.1' }
  expect((await proxied.call('GET', '/ip', { headers })).json).toEqual([
    '198.51.100.1',
    '198.51.100.1',
  ])
  expect((await direct.call('GET', '/ip', { headers })).json).toEqual(['127.0.0.1', '127.0.0.1'])
})

test('a proxy that is not trusted is warned of once: all its users count as one', async () => {
  const server = await edge({ 'GET /a': { auth: 'public', run: () => 'a' } })
  const warnings = () => server.logged.filter(({ level }) => level === 'warn')
  await server.call('GET', '/a')
  await server.call('GET', '/a', { headers: { Via: '1.1 cache' } })
  expect(warnings()).toEqual([])
  for (const name of ['X-Real-IP', 'X-Forwarded-For', 'Forwarded'])
    for (let i = 0; i < 3; i++) await server.call('GET', '/a', { headers: { [name]: '192.0.2.1' } })
  expect(warnings().map(({ message }) => message)).toEqual([
    expect.stringMatching(/x-real-ip while TRUST_PROXY_ENABLED is off.*all its users count as one/),
  ])
})

test('a proxy that is trusted is no news', async () => {
  const limits = { ratePerMinute: 100, trustProxy: true }
  const server = await edge({ 'GET /a': { auth: 'public', run: () => 'a' } }, { limits })
  await server.call('GET', '/a', { headers: { 'X-Forwarded-For': '192.0.2.1' } })
  expect(server.logged.filter(({ level }) => level === 'warn')).toEqual([])
})
