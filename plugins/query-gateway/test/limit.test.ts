import { expect, it } from 'vitest'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'
import { AddressLimit } from '../http/address-limit.ts'

const path = '/ledger/token/params'
const origin = 'https://app.example'

async function limited(env: Record<string, string> = {}) {
  const { address } = await aLedger()
  return gatewayTo(address, { GATEWAY_RATE_PER_MINUTE: '3', ...env })
}

it('a request too many is 429 in the words of the gateway, and pages that may read answers may read it', async () => {
  const app = await limited({ GATEWAY_CORS_ORIGINS: origin })
  for (let nth = 0; nth < 3; nth++) expect((await app.get(path)).status).toBe(200)
  const refused = await app.get(path, { headers: { origin } })
  expect(refused).toMatchObject({
    status: 429,
    body: { code: 8, message: expect.stringContaining('Too many requests'), details: [] },
  })
  expect(refused.headers.get('access-control-allow-origin')).toBe(origin)
  expect(refused.headers.get('access-control-expose-headers')).toContain('Retry-After')
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  const preflight = await fetch(`${app.url}${path}`, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'GET' },
  })
  expect(preflight.status).toBe(204)
})

it('what is not the gateway’s is refused in the words of the runtime, and its routes count apart', async () => {
  const app = await limited()
  for (let nth = 0; nth < 3; nth++) expect((await app.get('/nobody/knows')).status).toBe(404)
  const refused = await app.get('/nobody/knows')
  expect(refused).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED' } })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await app.get('/nobody/%zz')).status).toBe(429)
  expect((await app.get(path)).body).toMatchObject({ code: 8 })
  expect((await app.get('/health')).status).toBe(200)
})

it('the limit of the runtime does not count here', async () => {
  const { address } = await aLedger()
  const app = await gatewayTo(address, { RATE_LIMIT_PER_MINUTE: '1' })
  for (let nth = 0; nth < 5; nth++) expect((await app.get(path)).status).toBe(200)
})

it('a minute later an address begins anew, and a network of IPv6 counts as one address', () => {
  let now = 0
  const limit = new AddressLimit(1, () => now)
  expect(limit.take('192.0.2.1')).toBeUndefined()
  expect(limit.take('192.0.2.1')).toBe(60)
  expect(limit.take('192.0.2.2')).toBeUndefined()
  expect(limit.take('2001:db8:0:1::1')).toBeUndefined()
  expect(limit.take('2001:db8:0:1:ffff::2')).toBe(60)
  expect(limit.take('2001:db8:0:2::1')).toBeUndefined()
  now = 59_500
  expect(limit.take('192.0.2.1')).toBe(1)
  now = 60_000
  expect(limit.take('192.0.2.1')).toBeUndefined()
})

it('an old prefix with a day that does not exist stops the boot', async () => {
  const { address } = await aLedger()
  await expect(gatewayTo(address, { GATEWAY_LEGACY_PREFIXES: 'old=2026-02-31' })).rejects.toThrow(
    'GATEWAY_LEGACY_PREFIXES',
  )
})
