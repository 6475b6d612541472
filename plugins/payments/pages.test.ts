import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { freshDatabase } from '../../test/support/database.ts'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'
import { watchStatements } from '../../test/support/statements.ts'
import { storeOf } from '../../test/support/store-of.ts'
import payments from './index.ts'

const migrations = payments.definition.migrations ?? {}
const tables = ['payments_accounts', 'payments_charges', 'payments_claims']

/** A charge of which so much is due by a claim, or nothing. */
const charge = (db: Kysely<any>, id: string, claim: string | null) =>
  sql`insert into payments_charges
      (run_id, did, session_id, request_id, status, held, amount, lines, claim_id, created_at)
    values (${id}, 'did:x:a', 's', ${id}, 'due', 0, 5, '[]', ${claim}, 1)`.execute(db)

await onEachDatabase('what a turn with a price writes', (where) => {
  test('tables that get rid of their rowids keep rows, defaults, rules and indexes', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'fewer-pages-'))
    const own = where.databaseUrl === undefined ? undefined : await freshDatabase(where.databaseUrl)
    const store = await storeOf(folder, { databaseUrl: own?.url })
    onTestFinished(async () => {
      await store.close()
      await own?.drop()
      rmSync(folder, { recursive: true, force: true })
    })
    const { db, kind } = store
    const older = Object.entries(migrations).filter(([name]) => name < '006')
    await store.migrate('payments', Object.fromEntries(older))
    for (const did of ['did:x:b', 'did:x:a'])
      await sql`insert into payments_accounts
          (did, free_day, balance, owed, held, has_paid, has_first, free_used, looked_at, created_at, touched_at)
        values (${did}, '', 9007199254740991, 5, 0, 1, 0, 0, 0, 1, 1)`.execute(db)
    await charge(db, 'r2', 'c')
    await charge(db, 'r1', null)
    await sql`insert into payments_claims (id, did, kind, status, amount, created_at)
      values ('c', 'did:x:a', 'usage', 'open', 5, 1)`.execute(db)
    const all = async () => {
      const found: Record<string, unknown> = {}
      for (const table of tables)
        found[table] = (await sql`select * from ${sql.table(table)} order by 1`.execute(db)).rows
      return found
    }
    const was = await all()
    await store.migrate('payments', migrations)
    expect(await all()).toEqual(was)

    // What a version before this one writes and asks is written and found as before.
    await charge(db, 'r3', 'c')
    await expect(charge(db, 'r3', null)).rejects.toThrow(/unique/i)
    const { rows } = await sql`select run_id from payments_charges where claim_id in ('c')
      order by run_id`.execute(db)
    expect(rows).toEqual([{ run_id: 'r2' }, { run_id: 'r3' }])
    if (kind === 'postgres') return
    for (const table of tables)
      await expect(sql`select rowid from ${sql.table(table)}`.execute(db)).rejects.toThrow(/rowid/)
    for (const [column, index] of [
      ['claim_id', 'of_claim'],
      ['did', 'of_did'],
    ]) {
      const plan = await sql<{ detail: string }>`explain query plan select * from payments_charges
        where ${sql.ref(String(column))} in ('c', 'd')`.execute(db)
      expect(plan.rows.map(({ detail }) => detail).join()).toContain(`payments_charges_${index}`)
    }
  })

  test('the end of a turn reads nothing of the charge that began in its process', async () => {
    const app = await paidApp({ where, env: { PAYMENTS_FIRST_CREDIT: '15000' } })
    const user = await app.user()
    const sessionId = await session(user)
    const reads: string[] = []
    onTestFinished(
      watchStatements((text) => {
        if (/^select charge\./.test(text)) reads.push(text)
      }),
    )
    const message = { message: 'Hello', stream: false }
    expect((await user.post(`/messages/${sessionId}`, message)).status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ owed: '5000' })
    expect(reads).toEqual([])
  })

  test('the account is looked at before a turn only where the turn before it left no room', async () => {
    const app = await paidApp({ where, env: { PAYMENTS_FIRST_CREDIT: '15000' } })
    const user = await app.user()
    const sessionId = await session(user)
    let looks = 0
    onTestFinished(
      watchStatements((text) => {
        if (/^select \* from "payments_accounts"/.test(text)) looks++
      }),
    )
    const say = async () => {
      const before = looks
      const message = { message: 'Hello', stream: false }
      const { status } = await user.post(`/messages/${sessionId}`, message)
      return [status, looks > before]
    }
    expect(await say()).toEqual([200, true])
    expect(await say()).toEqual([200, false])
    expect(await say()).toEqual([200, false])
    expect(await say()).toEqual([402, true])
  })
})
