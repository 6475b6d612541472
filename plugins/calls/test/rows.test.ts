import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  postgresDatabase,
  sqliteDatabase,
  type TestDatabase,
} from '../../../test/support/databases.ts'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { silent } from '../../../test/support/silent-log.ts'
import { CallRows, times } from '../rows.ts'
import { migrations } from '../tables.ts'

const minute = 60_000
const midnight = Date.parse('2026-03-02T00:00:00Z')

await onEachDatabase('the rows of calls', ({ databaseUrl }) => {
  let database: TestDatabase
  let replicas: CallRows[]
  let now = midnight
  let did = ''
  const placed = (rows: CallRows, sessionId: string, places: number) =>
    rows.take(
      { ...{ id: randomUUID(), did, sessionId }, type: 'audio', consent: null },
      undefined,
      places,
    )

  /** The process of a call is gone for longer than its lease. */
  const lapse = (id: string) =>
    replicas[0]!.db
      .updateTable('calls_calls')
      .set({ lease_until: 1 })
      .where('id', '=', id)
      .execute()

  beforeAll(async () => {
    database = await (databaseUrl ? postgresDatabase(databaseUrl) : sqliteDatabase())
    const open = async () => {
      const store = await database.open()
      await store.migrate('calls', migrations)
      return new CallRows({
        ...{ db: store.db, log: silent, owner: randomUUID(), minutesPerDay: 120 },
        now: () => new Date(now),
      })
    }
    replicas = [await open(), await open()]
  })
  afterAll(() => database.drop())
  beforeEach(() => void (did = `did:key:${randomUUID()}`))

  test.each([1, 2])('of ten that ask two replicas at once, %i get a place', async (places) => {
    const asked = Array.from({ length: 10 }, (_, i) =>
      placed(replicas[i % 2]!, randomUUID(), places),
    )
    const given = (await Promise.all(asked)).filter((row) => row !== undefined)
    expect(given).toHaveLength(places)
    await replicas[0]!.close(given[0]!.id, 'user')
    expect(await placed(replicas[1]!, randomUUID(), places)).toBeDefined()
    expect(await placed(replicas[1]!, randomUUID(), places)).toBeUndefined()
  })

  test('a session has one call at a time, however many its user may have', async () => {
    const session = randomUUID()
    const asked = replicas.map((rows) => placed(rows, session, 3))
    const given = (await Promise.all(asked)).filter((row) => row !== undefined)
    expect(given).toHaveLength(1)
    expect(await placed(replicas[0]!, randomUUID(), 3)).toBeDefined()
  })

  test('the place of a process that is gone is free when its lease has run out', async () => {
    const left = await placed(replicas[0]!, randomUUID(), 1)
    expect(await placed(replicas[1]!, randomUUID(), 1)).toBeUndefined()
    await lapse(left!.id)
    expect(await placed(replicas[1]!, randomUUID(), 1)).toBeDefined()
  })

  test('clocks of processes that differ end no call, and a lost one lasted until its process was last there', async () => {
    const [rows, other] = replicas
    now = midnight + 60 * minute
    const call = await placed(rows!, randomUUID(), 1)
    await rows!.begin(call!.id)
    now += 3 * minute
    expect(await rows!.beat([call!.id])).toEqual([])
    // The clock of the other process goes before by ten minutes.
    now += 10 * minute
    await other!.sweep()
    expect((await other!.own(did, call!.id)).state).toBe('active')
    expect(await other!.underWay(did)).toHaveLength(1)
    await lapse(call!.id)
    expect(await other!.minutesLeft(did)).toBe(117)
    await other!.sweep()
    const lost = { state: 'ended', ended_by: 'lost', ended_at: midnight + 63 * minute }
    expect(await other!.own(did, call!.id)).toMatchObject(lost)
    expect(await other!.minutesLeft(did)).toBe(117)
  })

  test('a call of an older version, which names no such time, lasted until its lease was taken', async () => {
    const [rows, other] = replicas
    const call = await placed(rows!, randomUUID(), 1)
    await rows!.begin(call!.id)
    await rows!.db.updateTable('calls_calls').set({ seen_at: 0 }).execute()
    await lapse(call!.id)
    await other!.sweep()
    const { ended_at, lease_until, ended_by } = await other!.own(did, call!.id)
    expect(ended_by).toBe('lost')
    expect(ended_at).toBe(lease_until - times.leaseMs)
  })

  test('of a call over midnight each day counts its own minutes', async () => {
    const [rows] = replicas
    now = midnight - 30 * minute
    const call = await placed(rows!, randomUUID(), 1)
    await rows!.begin(call!.id)
    expect(rows!.lastingMs(100)).toBe(150 * minute)
    expect(rows!.lastingMs(20)).toBe(20 * minute)
    now = midnight + 10 * minute
    await rows!.close(call!.id, 'user')
    expect(await rows!.minutesLeft(did)).toBe(110)
    now = midnight + 24 * 60 * minute
    expect(await rows!.minutesLeft(did)).toBe(120)
  })
})
