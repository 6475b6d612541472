import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Log } from '../core/plugin.ts'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../core/runtime/store/store.ts'
import { Runs } from '../core/runtime/turns/carry/runs.ts'
import {
  type RunDatabase,
  runMigrations,
  withRunTables,
} from '../core/runtime/turns/journal/tables.ts'

/**
 * Measures the CPU time and the time of `sessions.say` beside the bare inserts of the rows that it leaves, one after the
 * other: the same rows in one transaction, and nothing looked up. BENCH_DATABASE_URL adds PostgreSQL.
 */
const rounds = 9
const perRound = 300
/** Fewer than a plugin may say to one user in a minute. */
const perUser = 50

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }
const text = 'The pump at the northern well was repaired, and water flows again. '.repeat(3)

type Tables = 'kernel_runs' | 'kernel_run_events' | 'kernel_steps'

/** Copies of what one `say` left, with other ids. */
async function rowsOf(db: RunDatabase, table: Tables) {
  const row = await db.selectFrom(table).selectAll().limit(1).executeTakeFirstOrThrow()
  return row as Record<string, unknown> // the bench writes back what it has read
}

async function measure(name: string, store: Store): Promise<void> {
  await store.migrate('kernel-runs', runMigrations)
  const runs = new Runs({
    store,
    log: silent,
    engine: () => Promise.reject(new Error('nobody is asked')),
    oracle: { name: 'Bench', did: 'did:key:zOracle' },
    leaseMs: 10_000,
    retentionHours: 1,
  })
  await runs.open()
  const { say } = runs.sessionsOf('bench')
  const db = withRunTables(store.db)
  let n = 0
  const next = async () => {
    const user = { did: `did:key:zBench${Math.floor(n++ / perUser)}` }
    return { user, session: (await runs.sessions.ensure(user.did, { plugin: 'bench' })).sessionId }
  }
  const first = await next()
  await say({ ...first, text })
  const [run, events, step] = await Promise.all([
    rowsOf(db, 'kernel_runs'),
    rowsOf(db, 'kernel_run_events'),
    rowsOf(db, 'kernel_steps'),
  ])
  const tag = String(Date.now())
  const insert = async (session: string, nth: number) => {
    const id = `${tag}-${nth}`
    await store.db.transaction().execute(async (plain) => {
      const trx = withRunTables(plain)
      await trx
        .updateTable('kernel_sessions')
        .set((eb) => ({ turns: eb('turns', '+', 1) }))
        .where('id', '=', session)
        .execute()
      const own = { id, root_id: id, request_id: id, session_id: id, turn: 1 }
      await trx
        .insertInto('kernel_runs')
        .values({ ...run, ...own } as never)
        .execute()
      await trx
        .insertInto('kernel_run_events')
        .values({ ...events, run_id: id } as never)
        .execute()
      await trx
        .insertInto('kernel_steps')
        .values({ ...step, run_id: id, root_id: id, session_id: id } as never)
        .execute()
    })
  }
  const kinds = {
    insert: async (at: { session: string }, nth: number) => insert(at.session, nth),
    say: async (at: { user: { did: string }; session: string }) =>
      void (await say({ ...at, text })),
  }
  const taken = { insert: [] as number[], say: [] as number[] }
  const cpu = { insert: [] as number[], say: [] as number[] }
  for (let round = 0; round < rounds; round++)
    for (const kind of ['insert', 'say'] as const) {
      const places = []
      for (let i = 0; i < perRound; i++) places.push(await next())
      const before = process.cpuUsage()
      const start = performance.now()
      for (const [i, place] of places.entries()) await kinds[kind](place, round * perRound + i)
      taken[kind].push((performance.now() - start) / perRound)
      const { user, system } = process.cpuUsage(before)
      cpu[kind].push((user + system) / perRound)
    }
  const of = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] ?? 0
  const figures = (kind: 'insert' | 'say') =>
    `${of(taken[kind]).toFixed(3)} ms, ${of(cpu[kind]).toFixed(0)} µs CPU`
  console.log(`${name}: insert ${figures('insert')}; say ${figures('say')}`)
  console.log(
    `ratio: ${(of(taken.say) / of(taken.insert)).toFixed(2)} of time, ${(of(cpu.say) / of(cpu.insert)).toFixed(2)} of CPU`,
  )
  await runs.close()
  await store.close()
}

const folder = mkdtempSync(join(tmpdir(), 'bench-said-'))
await measure('SQLite', await openStore({ dataDir: await openDataDir(folder), log: silent }))
rmSync(folder, { recursive: true, force: true })
const databaseUrl = process.env.BENCH_DATABASE_URL
if (databaseUrl) await measure('PostgreSQL', await openStore({ databaseUrl, log: silent }))
