import { describe, expect, test } from 'vitest'
import { MemoryReplays } from '../../core/runtime/auth/token/replays.ts'
import { databaseBusy, translated } from '../../core/runtime/store/database-errors.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { oracle, requestOf, testAuth } from '../support/auth.ts'
import { bearer } from '../support/tokens.ts'

const audience = oracle.did
const user = await createWallet()

describe('the memory of used tokens', () => {
  test('forgets at expiry, and takes no more when it is full', () => {
    let time = 1_000_000
    const replays = new MemoryReplays({ max: 2, now: () => time })
    expect(replays.claim('a', time + 10_000)).toBe('first')
    expect(replays.claim('a', time + 10_000)).toBe('used')
    expect(replays.claim('b', time + 50_000)).toBe('first')
    expect(replays.claim('c', time + 50_000)).toBe('full')
    time += 31_000
    expect(replays.claim('c', time + 50_000)).toBe('first')
    expect(replays.claim('b', time + 50_000)).toBe('used')
  })

  test('when full refuses bound tokens and nothing else', async () => {
    const { auth, lines } = testAuth({ replays: new MemoryReplays({ max: 0 }) })
    const facts = [{ htm: 'POST', htu: '/registry' }]
    const headers = bearer((await user.invoke({ audience, facts })).text)
    const request = requestOf(headers, { method: 'POST', path: '/registry' })
    await expect(auth.authenticate(request)).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      status: 401,
    })
    expect(lines.join()).toContain('too many bound tokens at once')
    const free = await user.invoke({ audience })
    expect((await auth.authenticate(requestOf(bearer(free.text)))).did).toBe(user.did)
  })

  test('that cannot be asked just now makes no token wrong: the answer is that of the database', async () => {
    for (const fault of [databaseBusy('Everything'), translated(new Error('timeout expired'))]) {
      const { auth } = testAuth({ replays: { claim: () => Promise.reject(fault) } })
      const facts = [{ htm: 'POST', htu: '/registry' }]
      const headers = bearer((await user.invoke({ audience, facts })).text)
      const request = requestOf(headers, { method: 'POST', path: '/registry' })
      await expect(auth.authenticate(request)).rejects.toBe(fault)
      expect(fault).toMatchObject({ status: 503 })
      expect(auth.stats().refused).toBe(0)
    }
  })
})
