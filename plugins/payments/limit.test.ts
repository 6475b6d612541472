import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { TestClock, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'

const env = {
  ORACLE_MNEMONIC: 'the words of the oracle that has two replicas in this test',
  TURNS_AT_ONCE: '1000',
  CALLS_PER_MINUTE: '100000',
  RATE_LIMIT_PER_MINUTE: '100000',
  PAYMENTS_FIRST_CREDIT: '15000',
}

await onEachDatabase('the limit', (where) => {
  test('of a hundred turns at once with room for three, three begin, and the others meet a 402', async () => {
    const first = await paidApp({ where, env })
    const second = where.databaseUrl ? await paidApp({ where, env }) : first
    const users = await Promise.all(
      [first, second].map((app) => app.user(`words of one user ${where.databaseUrl ?? ''}`)),
    )
    const beside = await first.user()
    const sessions = await Promise.all(Array.from({ length: 100 }, () => session(users[0]!)))
    const answers = await Promise.all(
      sessions.map((id, i) =>
        users[i % 2]!.post(`/messages/${id}`, { message: 'Hello', stream: false }),
      ),
    )
    const statuses = answers.map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(3)
    expect(statuses.filter((status) => status === 402)).toHaveLength(97)
    for (const { status, body } of answers)
      if (status === 402) expect(body.claims.length).toBeGreaterThan(0)
    expect(await settledAccount(users[0]!)).toMatchObject({ owed: '15000', held: '0' })
    const { charges } = (await users[0]!.get('/payments/charges')).body
    expect(charges).toHaveLength(3)
    const own = await session(beside)
    expect(
      (await beside.post(`/messages/${own}`, { message: 'Hello', stream: false })).status,
    ).toBe(200)
  }, 120_000)

  test('the same request id ten times at once is one run and one charge, and its answer also over the limit', async () => {
    const more = { ...env, PAYMENTS_FIRST_CREDIT: '5000' }
    const first = await paidApp({ where, env: more })
    const second = where.databaseUrl ? await paidApp({ where, env: more }) : first
    const words = `words of one who says the same to both ${where.databaseUrl ?? ''}`
    const users = await Promise.all([first, second].map((app) => app.user(words)))
    const user = users[0]!
    const sessionId = await session(user)
    const requestId = randomUUID()
    const say = (id: string, nth = 0) =>
      users[nth % 2]!.post(`/messages/${sessionId}`, {
        message: 'Hello',
        stream: false,
        requestId: id,
      })
    const answers = await Promise.all(Array.from({ length: 10 }, (_, nth) => say(requestId, nth)))
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0)
    expect(await settledAccount(user)).toMatchObject({ owed: '5000' })
    expect((await say(randomUUID())).status).toBe(402)
    for (const nth of [0, 1]) expect((await say(requestId, nth)).status).toBe(200)
    expect((await user.get('/payments/charges')).body.charges).toHaveLength(1)
  })

  test('free turns are counted a day, per DID and three times that per address', async () => {
    const clock = new TestClock(new Date('2026-05-01T12:00:00Z'))
    const app = await paidApp({
      where,
      clock,
      env: { ...env, PAYMENTS_FIRST_CREDIT: '0', PAYMENTS_FREE_TURNS: '2' },
    })
    const begun = async () => {
      const user = await app.user()
      let turns = 0
      for (let i = 0; i < 3; i++) if ((await beginning(user)) === 200) turns++
      return turns
    }
    const turns: number[] = []
    for (let i = 0; i < 5; i++) turns.push(await begun())
    expect(turns).toEqual([2, 2, 2, 0, 0])
    await clock.advance('1d')
    expect(await begun()).toBe(2)
  })

  test('new DIDs of one address are given the first credit three times a day', async () => {
    // A day of its own: other tests of this database give credit to this address, too.
    const clock = new TestClock(new Date('2026-06-01T12:00:00Z'))
    const app = await paidApp({ where, clock, env: { ...env, PAYMENTS_FIRST_CREDIT: '5000' } })
    const given = async (count: number) => {
      const statuses: number[] = []
      for (let i = 0; i < count; i++) statuses.push(await beginning(await app.user()))
      return statuses
    }
    expect(await given(8)).toEqual([200, 200, 200, 402, 402, 402, 402, 402])
    await clock.advance('1d')
    expect(await given(4)).toEqual([200, 200, 200, 402])
  })

  test('behind a proxy that is trusted each address counts for itself', async () => {
    const clock = new TestClock(new Date('2026-07-01T12:00:00Z'))
    const app = await paidApp({
      where,
      clock,
      env: { ...env, PAYMENTS_FIRST_CREDIT: '5000', TRUST_PROXY_ENABLED: 'true' },
    })
    for (const address of ['192.0.2.1', '2001:db8::1', '192.0.2.2'])
      for (const status of [200, 200, 200, 402])
        expect(await beginning(await app.user(), address)).toBe(status)
    // The addresses of one subscriber are one.
    expect(await beginning(await app.user(), '2001:db8::2:1')).toBe(402)
  })
})

let forged = 0
/** How a turn begins that says it comes from an address: by default another one each time, which nobody has to believe. */
async function beginning(user: TestUser, address = `203.0.113.${++forged}`): Promise<number> {
  const headers = { 'x-forwarded-for': address }
  const body = { message: 'Hello', stream: false }
  return (await user.post(`/messages/${await session(user)}`, body, headers)).status
}
