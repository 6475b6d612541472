import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { clientAddress, clientNetwork } from '../../core/runtime/http/limits/client-address.ts'

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
