/**
 * Measures the newest migrations of conversations on a filled database: 100,000 sessions and a million runs with their words, as the
 * version before left them. On SQLite it counts the time, and on PostgreSQL (BENCH_DATABASE_URL, an empty database) also how long somebody
 * who writes meanwhile has to wait. Then an old session is read and goes on. With BENCH_GATE=1 a missed goal ends the process with
 * 1. Arguments: how many runs, and the name of the last migration that the version before had.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import type { Log, User } from '../core/plugin.ts'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../core/runtime/store/store.ts'
import { Runs } from '../core/runtime/turns/carry/runs.ts'
import { runMigrations } from '../core/runtime/turns/journal/tables.ts'

const runs = Number(process.argv[2] ?? 1_000_000)
const last = process.argv[3] ?? '014-search'
const sessions = Math.max(1, Math.round(runs / 10))
const goals = { seconds: 60, waitMs: 2_000 }
const probeMs = 20

const log: Log = { debug() {}, info() {}, warn() {}, error: console.error }
const user: User = { did: 'did:key:z0', can: () => true, denial: () => [] }

function told(what: string, value: number, unit: string, goal: number): void {
  const isMissed = !(value <= goal)
  console.log(`${what}: ${value.toFixed(2)} ${unit}, goal ${goal}${isMissed ? ': MISSED' : ''}`)
  if (isMissed && process.env.BENCH_GATE === '1') process.exitCode = 1
}

/** How many rows one statement makes. */
const portion = 10_000

/** Rows as the version before has left them, made by the database itself. */
async function fill({ db, kind }: Store): Promise<void> {
  const of = sql.lit(sessions)
  const made = async (
    count: number,
    rows: (numbers: RawBuilder<unknown>) => RawBuilder<unknown>,
  ) => {
    for (let from = 0; from < count; from += portion) {
      const [first, end] = [sql.lit(from), sql.lit(Math.min(from + portion, count) - 1)]
      const numbers =
        kind === 'postgres'
          ? sql`generate_series(${first}::int, ${end}::int) as n (i)`
          : sql`(with recursive n (i) as (select ${first} union all select i + 1 from n
              where i < ${end}) select i from n) as n`
      await rows(numbers).execute(db)
    }
  }
  await made(
    sessions,
    (numbers) => sql`insert into kernel_sessions (id, did, title, turns, created_at, updated_at)
      select 'session-' || i, 'did:key:z' || (i % 1000), 'Title ' || i, 10, 1, i from ${numbers}`,
  )
  await made(
    runs,
    (
      numbers,
    ) => sql`insert into kernel_runs (id, session_id, did, turn, root_id, root_turn, request_id,
        status, lease_until, steps, created_at, ended_at)
      select 'run-' || i, 'session-' || (i % ${of}), 'did:key:z' || (i % ${of} % 1000), i / ${of} + 1,
        'run-' || i, i / ${of} + 1, 'request-' || i, 'finished', 0, 1, 1, 2 from ${numbers}`,
  )
  await made(
    runs,
    (numbers) => sql`insert into kernel_steps
        (session_id, position, run_id, root_id, step, kind, body, created_at)
      select 'session-' || (i % ${of}), cast(i / ${of} + 1 as bigint) * 1048576, 'run-' || i,
        'run-' || i, 0, 'user', '{"role":"user","id":"user-run-' || i || '","content":"Words"}', 1
      from ${numbers}`,
  )
}

/** The longest that a change of a session took until the work was done, in milliseconds. */
async function longestWait(store: Store, work: Promise<unknown>): Promise<number> {
  let isDone = false
  const done = work.finally(() => (isDone = true))
  let longest = 0
  for (let nth = 0; !isDone; nth++) {
    const began = performance.now()
    await sql`update kernel_sessions set updated_at = updated_at + 1
      where id = ${`session-${nth % sessions}`}`.execute(store.db)
    longest = Math.max(longest, performance.now() - began)
    await sleep(probeMs)
  }
  await done
  return longest
}

/** Reads an old session of the user and says something in it. */
async function goOn(store: Store): Promise<void> {
  const here = new Runs({
    store,
    log,
    engine: async () => ({ status: 'finished' }),
    leaseMs: 10_000,
    retentionHours: 1_000_000,
    oracle: { name: 'Bench', did: 'did:key:zOracle' },
  })
  await here.open()
  try {
    const sessionId = 'session-0'
    await here.sessions.demand(user.did, sessionId)
    const { runId } = await here.send({ user, sessionId, request: { message: 'And on' } })
    for await (const _ of await here.subscribe(runId));
    const { rows } = await sql<{ turn: number }>`select turn from kernel_runs
      where session_id = ${sessionId} order by turn desc limit 1`.execute(store.db)
    const turns = Math.ceil(runs / sessions)
    if (rows[0]?.turn !== turns + 1) throw new Error(`The session has turn ${rows[0]?.turn}.`)
  } finally {
    await here.close()
  }
}

async function measure(name: string, databaseUrl?: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-filled-'))
  const dataDir = databaseUrl ? undefined : await openDataDir(folder)
  const store = await openStore({ databaseUrl, dataDir, log })
  try {
    const before = Object.entries(runMigrations).filter(([migration]) => migration <= last)
    await store.migrate('kernel-runs', Object.fromEntries(before))
    await fill(store)
    const newer = Object.keys(runMigrations).filter((migration) => migration > last)
    console.log(`${name}, ${sessions} sessions, ${runs} runs, ${newer.join(', ')}`)
    const began = performance.now()
    const migrating = store.migrate('kernel-runs', runMigrations)
    const waited = await (databaseUrl ? longestWait(store, migrating) : migrating.then(() => 0))
    told('  time', (performance.now() - began) / 1000, 's', goals.seconds)
    if (databaseUrl) told('  longest wait of a writer', waited, 'ms', goals.waitMs)
    const from = performance.now()
    await goOn(store)
    console.log(`  an old session goes on: ${(performance.now() - from).toFixed(0)} ms`)
  } finally {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

await measure('SQLite')
const url = process.env.BENCH_DATABASE_URL
if (url) await measure('PostgreSQL', url)
