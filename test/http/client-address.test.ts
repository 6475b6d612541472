import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { clientAddress, clientNetwork } from '../../core/runtime/http/limits/client-address.ts'
import { edge } from '../support/edge.ts'

// Only what the function reads of a request.
const request = (remoteAddress: string | undefined, forwarded?: string) =>
  ({
    headers: { 'x-forwarded-for': forwarded },
    socket: { remoteAddress },
  }) as unknown as IncomingMessage

test.each([
  ['203.0.113.9', '203.0.113.9'],
  ['::ffff:203.0.113.9', '203.0.113.9'],
  ['::FFFF:203.0.113.9', '203.0.113.9'],
  ['::1', '::1'],
  ['2001:DB8::1', '2001:db8::1'],
  [undefined, 'unknown'],
])('a socket from %s is %s', (remote, address) => {
  expect(clientAddress(request(remote), false)).toBe(address)
  expect(clientAddress(request(remote, '198.51.100.1'), false)).toBe(address)
})

test.each([
  ['198.51.100.1', '198.51.100.1'],
  ['6.6.6.6, 198.51.100.1', '198.51.100.1'],
  ['6.6.6.6,198.51.100.1 ', '198.51.100.1'],
  ['198.51.100.1:4711', '198.51.100.1'],
  ['[2001:db8::7]:443', '2001:db8::7'],
  ['2001:db8::7', '2001:db8::7'],
  ['::ffff:198.51.100.1', '198.51.100.1'],
  ['unknown', '10.0.0.1'],
  ['', '10.0.0.1'],
  ['198.51.100.1,', '10.0.0.1'],
  ['198.51.100.1, _hidden', '10.0.0.1'],
  ['198.51.100.999', '10.0.0.1'],
  ['[', '10.0.0.1'],
  ['1.2.3.4.5', '10.0.0.1'],
])('behind a trusted proxy that forwards %j it is %s', (forwarded, address) => {
  expect(clientAddress(request('10.0.0.1', forwarded), true)).toBe(address)
})

test('a handler and Koa see the same address', async () => {
  const route = {
    auth: 'public' as const,
    run: (_: unknown, ctx: { caller: string; koa: { ip: string } }) => [ctx.caller, ctx.koa.ip],
  }
  const proxied = await edge(
    { 'GET /ip': route },
    { limits: { ratePerMinute: 9, trustProxy: true } },
  )
  const direct = await edge({ 'GET /ip': route })
  const headers = { 'X-Forwarded-For': '6.6.6.6, 198.51.100.1' }
  expect((await proxied.call('GET', '/ip', { headers })).json).toEqual([
    '198.51.100.1',
    '198.51.100.1',
  ])
  expect((await direct.call('GET', '/ip', { headers })).json).toEqual(['127.0.0.1', '127.0.0.1'])
})

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::', '2001:db8:1:2'],
  ['2001:db8:1:2:ffff::1', '2001:db8:1:2'],
  ['2001:db8::7', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['64:ff9b::192.0.2.7', '64:ff9b::192.0.2.7'],
  ['unknown', 'unknown'],
])('for a limit, %s is one client with everything in %s', (address, network) => {
  expect(clientNetwork(address)).toBe(network)
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
