import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../core/plugin.ts'
import { Idempotency } from '../../core/runtime/http/limits/idempotency.ts'
import {
  type TestDatabase,
  postgresDatabase,
  sqliteDatabase,
  withIdempotencyTable,
} from '../support/databases.ts'
import { describeWith } from '../support/services.ts'
import { silent as log } from '../support/silent-log.ts'

function suite(makeDatabase: () => Promise<TestDatabase>) {
  let database: TestDatabase
  let db: Database
  beforeAll(async () => {
    database = await makeDatabase()
    db = await withIdempotencyTable(await database.open())
  })
  afterAll(() => database.drop())

  let keys = 0
  const name = () => ({ caller: 'me', route: 'POST /notes', key: `key-${++keys}` })
  const answer = { status: 200, type: 'text/plain', body: 'a' }
  const rows = () => db.withTables<{ kernel_idempotency: Record<string, unknown> }>()
  async function begin(options: { leaseMs?: number; sweepMs?: number } = {}) {
    const keeper = new Idempotency({ db, log, ...options })
    onTestFinished(() => keeper.close())
    return keeper
  }

  test('whose run died is taken over when its lease is over, once', async () => {
    const at = name()
    const now = Date.now()
    const row = { ...at, fingerprint: 'f', token: 'dead', answer: null, expires_at: now + 1e6 }
    await rows()
      .insertInto('kernel_idempotency')
      .values({ ...row, lease_until: now - 1 })
      .execute()
    const keeper = await begin()
    const takers = await Promise.allSettled(Array.from({ length: 8 }, () => keeper.begin(at, 'f')))
    expect(takers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test('whose run lives is not, however long it takes', async () => {
    const at = name()
    const keeper = await begin({ leaseMs: 500 })
    const claim = await keeper.begin(at, 'f')
    await sleep(1500)
    await expect(keeper.begin(at, 'f')).rejects.toMatchObject({ code: 'IDEMPOTENCY_IN_PROGRESS' })
    if (!('keep' in claim)) throw new Error('the first one has no claim')
    await claim.keep(answer)
    expect(await keeper.begin(at, 'f')).toEqual(answer)
  })

  test('that another run took over is not touched by the one that lost it', async () => {
    const at = name()
    const keeper = await begin()
    const lost = await keeper.begin(at, 'f')
    const token = { token: 'other' }
    await rows().updateTable('kernel_idempotency').set(token).where('key', '=', at.key).execute()
    if (!('keep' in lost)) throw new Error('the first one has no claim')
    await lost.keep(answer)
    await lost.release()
    await expect(keeper.begin(at, 'f')).rejects.toMatchObject({ code: 'IDEMPOTENCY_IN_PROGRESS' })
  })

  test('is free after 24 hours, and swept', async () => {
    const at = name()
    const keeper = await begin()
    const first = await keeper.begin(at, 'f')
    if ('keep' in first) await first.keep(answer)
    const stored = () =>
      rows().selectFrom('kernel_idempotency').selectAll().where('key', '=', at.key).execute()
    const [row] = await stored()
    const life = Number(row?.expires_at) - Date.now()
    expect(life / 3_600_000).toBeCloseTo(24, 1)
    const age = () =>
      rows()
        .updateTable('kernel_idempotency')
        .set({ expires_at: Date.now() - 1 })
        .where('key', '=', at.key)
        .execute()
    await age()
    const second = await keeper.begin(at, 'another')
    expect(second).toHaveProperty('keep')
    if ('keep' in second) await second.keep(answer)
    await age()
    await begin({ sweepMs: 5 })
    while ((await stored()).length > 0) await sleep(5)
  })
}

describe('the row of an Idempotency-Key in SQLite', () => suite(sqliteDatabase))
await describeWith('postgres', 'the row of an Idempotency-Key in PostgreSQL', (url) =>
  suite(() => postgresDatabase(url)),
)
