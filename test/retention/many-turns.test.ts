import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { definePlugin, type Database } from '#core'
import { scriptedModel, testApp, TestClock } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { computeFor, stallsDuring } from '../support/stalls.ts'

const operator = { Authorization: 'Bearer the-operators-own-token' }
const turnsOfOne = 10
/** For how long the event loop may stand still. */
const mostMs = 50
/**
 * How often everything is cleaned up at most. A busy machine holds a process for longer than that now and then, so one
 * time without a stall is enough; work that is too much for one turn of the loop is so each time.
 */
const mostRounds = 4

/** The columns that tell whose a row is. */
const ids = ['id', 'session_id', 'run_id', 'root_id', 'thread_id', 'request_id', 'checkpoint']

type Size = { readonly tables: readonly { readonly name: string; readonly rows: number }[] }

/** Tables that turns fill without a row for each of them: by user and day, or once. */
const notByTurn =
  /^(kernel_search|kernel_leases|kernel_storage_days|kernel_turn_counts|kernel_grants)/

/** How many rows more each table has than before, for the tables that turns fill. */
function growth(before: Size, after: Size): Map<string, number> {
  const had = new Map(before.tables.map(({ name, rows }) => [name, rows]))
  const more = after.tables.map(({ name, rows }) => [name, rows - (had.get(name) ?? 0)] as const)
  return new Map(more.filter(([name, rows]) => rows > 0 && !notByTurn.test(name)))
}

/** Copies a session with everything of it under other ids, as if as many people had said the same. */
async function multiply(db: Database, session: string, times: number): Promise<void> {
  const { rows: runs } = await sql<{ id: string }>`
    select id from kernel_runs where session_id = ${session}`.execute(db)
  const runIds = sql.join(runs.map(({ id }) => id))
  for (const { name, columns } of await db.introspection.getTables()) {
    const names = columns.map((column) => column.name)
    const owner = ['session_id', 'thread_id'].find((column) => names.includes(column))
    const isOf =
      name === 'kernel_sessions'
        ? sql`id = ${session}`
        : owner
          ? sql`${sql.ref(owner)} = ${session}`
          : names.includes('run_id')
            ? sql`run_id in (${runIds})`
            : undefined
    // What can be searched is indexed by whoever searches, and nobody has.
    if (!isOf || name.startsWith('kernel_search')) continue
    const values = columns.map(({ name: column, dataType }) =>
      ids.includes(column) && dataType.toLowerCase() === 'text'
        ? sql`${sql.ref(column)} || '-' || n`
        : sql.ref(column),
    )
    await sql`insert into ${sql.table(name)} (${sql.join(names.map((each) => sql.ref(each)))})
      with recursive copies (n) as (select 1 union all select n + 1 from copies where n < ${sql.lit(times - 1)})
      select ${sql.join(values)} from ${sql.table(name)} cross join copies where ${isOf}`.execute(
      db,
    )
  }
}

await onEachDatabase('a server of many turns', ({ databaseUrl }) => {
  // 10,000 turns. PostgreSQL works in processes of its own, and takes its time for each transaction.
  const sessions = databaseUrl === undefined ? 1_000 : 100
  it('comes back to its size when they are too old, and stands still for nobody meanwhile', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'many-turns-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const seen: { db?: Database } = {}
    const sight = definePlugin({
      name: 'sight',
      summary: 'Sees the database.',
      setup({ db }) {
        seen.db = db
      },
    })
    const answers = Array.from({ length: 200 }, () => `The pump works. ${'word '.repeat(50)}`)
    await using app = await testApp({
      plugins: [sight],
      model: scriptedModel(answers),
      clock: new TestClock('2027-01-01T00:00:00Z'),
      database: databaseUrl === undefined ? undefined : 'postgres',
      env: {
        OPERATOR_TOKEN: 'the-operators-own-token',
        SESSION_RETENTION_DAYS: '10',
        ...(databaseUrl === undefined && { DATA_DIR: folder }),
      },
    })
    const size = async () => (await app.get('/storage', { headers: operator })).body
    const rows = ({ tables }: { tables: { name: string; rows: number }[] }, pattern: RegExp) =>
      tables.reduce((sum, { name, rows }) => sum + (pattern.test(name) ? rows : 0), 0)
    const user = await app.user()
    await user.say('Hello')
    await app.clock.advance('20d')
    const before = await size()

    const worst = { clockMs: Infinity, ownMs: Infinity }
    const isStill = () => worst.clockMs > mostMs || worst.ownMs > mostMs
    for (let round = 0; round === 0 || (isStill() && round < mostRounds); round++) {
      const empty = await size()
      const { sessionId } = await user.say('Hello')
      for (let turn = 1; turn < turnsOfOne; turn++) await user.say('And then?', { sessionId })
      const real = growth(empty, await size())
      await multiply(seen.db!, sessionId, sessions)
      const full = await size()
      expect(rows(full, /^kernel_runs$/)).toBe(turnsOfOne * sessions)
      // Each table that real turns fill has as many rows as so many real turns would have left.
      expect(real.size).toBeGreaterThanOrEqual(4)
      for (const [name, count] of real)
        expect([name, growth(empty, full).get(name)]).toEqual([name, count * sessions])
      const began = performance.now()
      const stalls = await stallsDuring(() => app.clock.advance('20d'))
      const tookMs = performance.now() - began
      const control = await stallsDuring(() => computeFor(Math.min(tookMs, 10_000)))
      worst.clockMs = Math.min(worst.clockMs, stalls.clockMs - control.clockMs)
      worst.ownMs = Math.min(worst.ownMs, stalls.ownMs)

      const after = await size()
      const kept = /^(kernel_(sessions|runs|run_events|steps)|checkpoint)/
      expect(rows(after, kept)).toBe(rows(before, kept))
      expect(rows(after, /./)).toBeLessThanOrEqual(rows(before, /./) * 1.1 + 10)
      // PostgreSQL gives nothing back to the disk, and uses again what is free.
      if (databaseUrl === undefined) expect(after.bytes).toBeLessThanOrEqual(before.bytes * 1.1)
    }
    expect(worst.clockMs).toBeLessThanOrEqual(mostMs)
    expect(worst.ownMs).toBeLessThanOrEqual(mostMs)
  }, 600_000)
})
