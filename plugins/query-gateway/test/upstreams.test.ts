import { describe, expect, it } from 'vitest'
import type { LedgerOptions } from '../fixtures/ledger.ts'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'

/** A gateway in front of two ledgers. */
async function twoLedgers(options: LedgerOptions = {}) {
  const ledgers = [await aLedger(options), await aLedger(options)] as const
  const app = await gatewayTo(ledgers.map(({ address }) => address).join(', '))
  const [one, other] = ledgers
  return { app, one, other, get: (path: string) => app.get(path) }
}

/** Different questions, so that none shares the call of another. */
const question = (nth: number) => `/ledger/claims/claims?pagination.limit=1&nth=${nth}`

describe('with two upstreams', () => {
  it('one killed under load fails no safe request, and it is asked again when it is back', async () => {
    const { app, one, other, get } = await twoLedgers()
    const statuses: number[] = []
    let nth = 0
    let going = true
    const askers = Array.from({ length: 16 }, async () => {
      while (going) statuses.push((await get(question(nth++))).status)
    })
    await expect.poll(() => one.calls['ClaimsQuery.Claims'] ?? 0).toBeGreaterThan(20)
    await one.close()
    const [before, asked] = [statuses.length, other.calls['ClaimsQuery.Claims'] ?? 0]
    await expect.poll(() => statuses.length).toBeGreaterThan(before + 200)
    expect(other.calls['ClaimsQuery.Claims']).toBeGreaterThan(asked + 100)
    const again = await aLedger({ port: Number(one.address.split(':')[1]) })
    await expect
      .poll(() => again.calls['ClaimsQuery.Claims'] ?? 0, { timeout: 30_000 })
      .toBeGreaterThan(20)
    going = false
    await Promise.all(askers)
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(app.log.join()).toContain(`the upstream ${one.address} is away`)
    expect(app.log.join()).toContain(`the upstream ${one.address} is back`)
  })

  it('takes both in turn, and streams from either', async () => {
    const { app, one, other, get } = await twoLedgers()
    for (let nth = 0; nth < 10; nth++) expect((await get(question(nth))).status).toBe(200)
    // What the gateway asks for itself at its start may take a turn between two of these.
    const counts = [one, other].map(({ calls }) => calls['ClaimsQuery.Claims'] ?? 0)
    expect(counts[0]! + counts[1]!).toBe(10)
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(4)
    await one.close()
    for (let nth = 0; nth < 4; nth++) {
      const text = await (await fetch(`${app.url}/ledger/claims/watch`)).text()
      expect(text.trim().split('\n')).toHaveLength(5)
    }
  })

  it('never repeats a request that may have changed something', async () => {
    const away = () => {
      throw Object.assign(new Error('x'), { code: 14, details: 'gone' })
    }
    const { app, one, other, get } = await twoLedgers({
      handlers: { 'TokenQuery.Simulate': away, 'TokenQuery.Params': away },
    })
    const count = (method: string) => (one.calls[method] ?? 0) + (other.calls[method] ?? 0)
    expect((await app.post('/ledger/token/simulate', {})).status).toBe(503)
    expect(count('TokenQuery.Simulate')).toBe(1)
    expect((await get('/ledger/token/params')).status).toBe(503)
    expect(count('TokenQuery.Params')).toBe(2)
  })

  it('says 503 when both are away, and the address of neither', async () => {
    const say = () => {
      throw Object.assign(new Error('x'), {
        code: 3,
        details: `ask ${one.address} or ${two.address}`,
      })
    }
    const one = await aLedger({ handlers: { 'TokenQuery.Params': say } })
    const two = await aLedger({ handlers: { 'TokenQuery.Params': say } })
    const app = await gatewayTo(`${one.address},${two.address}`)
    expect((await app.get('/ledger/token/params')).body.message).toBe('ask upstream or upstream')
    await one.close()
    await two.close()
    expect(await app.get('/ledger/entity/params')).toMatchObject({
      status: 503,
      body: { code: 14 },
    })
  })

  it('refuses a list with something else than addresses', async () => {
    await expect(gatewayTo('127.0.0.1:1,nowhere')).rejects.toThrow('GATEWAY_UPSTREAM')
  })
})
