import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Kysely } from 'kysely'
import type { Log, Migrations } from '../../plugin.ts'
import { RuntimeError } from '../../errors.ts'
import { makeRoomOr, saidByDatabase } from './database-errors.ts'

/** Any number will do, as long as every version of the runtime takes the same. */
const lockKey = 7_021_460_583_129n

/** How long a migration may take before the log says so, and from then on how often it does. */
const tellMs = 10_000

/** What a migrator works on. */
interface MigrationTarget {
  readonly kind: 'sqlite' | 'postgres'
  readonly db: Kysely<any> // any: migrations are about tables that no type knows yet
  readonly log: Log
}

/**
 * Runs the migrations of one owner that this database has not seen, in the order of their names.
 * Each is one transaction that takes the database's lock first and looks again at what has run, so
 * servers that boot together share the work and none does it twice. Where nothing has run yet, all are tried as
 * one transaction, which a new database has in half the time; if that fails, each has its own, and those before the
 * one that fails stay. Returns what it ran itself.
 */
export async function migrate(
  { kind, db, log }: MigrationTarget,
  owner: string,
  migrations: Migrations,
): Promise<string[]> {
  const table = migrationTable(owner)
  const names = Object.keys(migrations).sort()
  const ran: string[] = []
  let newer: readonly string[] = []
  let running: string | undefined
  const began = performance.now()
  // The server answers nothing before the migrations have ended. Without the timer, Node would end where nothing else goes on.
  const telling = setInterval(() => {
    const seconds = Math.round((performance.now() - began) / 1000)
    const what =
      running === undefined
        ? `The migrations of ${owner} have waited ${seconds} s for the database`
        : `Migration "${running}" of ${owner} has run for ${seconds} s, and the server answers once it has ended`
    log.warn({ owner, migration: running }, what)
  }, tellMs)
  const step = (together: boolean) =>
    db.transaction().execute(async (trx) => {
      running = undefined
      if (kind === 'postgres') await lock(trx, owner, log)
      await createTable(trx, table)
      const rows = await ranIn(trx, table)
      newer = newerThan(owner, names, rows)
      const next = following(owner, names, rows)
      if (next === undefined) return []
      await knowBreaks(trx, table, rows)
      const due = together && rows.length === 0 ? names : [next]
      const values = []
      for (const name of due) {
        running = name
        const migration = migrations[name]!
        const breaks = typeof migration === 'object' ? 1 : 0
        await (typeof migration === 'object' ? migration.up(trx) : migration(trx))
        values.push({ name, ran_at: new Date().toISOString(), breaks })
      }
      await trx.insertInto(table).values(values).execute()
      return due
    })
  try {
    let done = await step(true).catch(() => step(false))
    while (done.length > 0) {
      ran.push(...done)
      for (const migration of done) log.info({ owner, migration }, 'Migration ran')
      done = ran.length < names.length ? await step(false) : []
    }
  } catch (error) {
    throw failure(owner, running, error)
  } finally {
    clearInterval(telling)
  }
  if (newer.length > 0)
    log.warn(
      { owner, migrations: newer },
      `A newer version of ${owner} was here. Its migrations only add, so this version goes on beside it.`,
    )
  return ran
}

/** A migration that has run. `breaks` is missing in rows that a runtime wrote which did not know the word. */
interface Ran {
  readonly name: string
  readonly breaks?: number | null
}

async function ranIn(db: MigrationTarget['db'], table: string): Promise<Ran[]> {
  return (await sql<Ran>`select * from ${sql.table(table)}`.execute(db)).rows
}

const createTable = (trx: MigrationTarget['db'], table: string): Promise<void> =>
  trx.schema
    .createTable(table)
    .ifNotExists()
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('ran_at', 'text', (column) => column.notNull())
    .addColumn('breaks', 'integer')
    .execute()

/** Adds the column to a table that a runtime made which did not know it. */
async function knowBreaks(
  trx: MigrationTarget['db'],
  table: string,
  rows: readonly Ran[],
): Promise<void> {
  const [first] = rows
  if (first && 'breaks' in first) return
  if (first) return await trx.schema.alterTable(table).addColumn('breaks', 'integer').execute()
  // Nothing stands in the table, and nobody can tell whether it has the column.
  await trx.schema.dropTable(table).execute()
  await createTable(trx, table)
}

/** The names of an owner's migrations that this database has not seen, in their order. Changes nothing. */
export async function pendingMigrations(
  db: MigrationTarget['db'],
  owner: string,
  migrations: Migrations,
): Promise<string[]> {
  const table = migrationTable(owner)
  const names = Object.keys(migrations).sort()
  const tables = await db.introspection.getTables()
  if (!tables.some(({ name }) => name === table)) return names
  const rows = await ranIn(db, table)
  const ran = new Set(rows.map((row) => row.name))
  newerThan(owner, names, rows)
  following(owner, names, rows)
  return names.filter((name) => !ran.has(name))
}

/** SQLite needs no lock beside its own: a transaction begins with the write lock of the file. */
async function lock(trx: Kysely<any>, owner: string, log: Log): Promise<void> {
  const { rows } = await sql<{
    free: boolean
  }>`select pg_try_advisory_xact_lock(${lockKey}) as free`.execute(trx)
  if (rows[0]?.free) return
  log.info({ owner }, 'Waiting for another server to finish its migrations')
  await sql`select pg_advisory_xact_lock(${lockKey})`.execute(trx)
}

/**
 * The names that a newer version of the owner has run here. Throws where this version cannot run beside them: one of them
 * breaks, or does not come after the last one that this version has.
 */
function newerThan(owner: string, names: readonly string[], rows: readonly Ran[]): string[] {
  const last = names.at(-1) ?? ''
  const unknown = rows
    .filter(({ name }) => !names.includes(name))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
  const breaking = unknown.find(({ name, breaks }) => breaks === 1 && name > last)
  if (breaking)
    throw new RuntimeError(
      'MIGRATION_FAILED',
      `This database has run migration "${breaking.name}" of ${owner}, which breaks with versions that end at "${last}".`,
      {
        hint: `A newer version of ${owner} was here: run that version, or restore a backup from before it.`,
      },
    )
  const foreign = unknown.find(({ name, breaks }) => breaks !== 0 || name < last)
  if (foreign)
    throw new RuntimeError(
      'MIGRATION_FAILED',
      `This database has run migration "${foreign.name}" of ${owner}, which ${owner} no longer has.`,
      {
        hint: `A newer version of ${owner} was here, or the migration was renamed: run that version, or bring the migration back.`,
      },
    )
  return unknown.map(({ name }) => name)
}

/** The first name that has not run, after a check that no later one has. */
function following(
  owner: string,
  names: readonly string[],
  rows: readonly Ran[],
): string | undefined {
  const ran = new Set(rows.map(({ name }) => name))
  const next = names.find((name) => !ran.has(name))
  const overtaken = names.findLast((name) => ran.has(name))
  if (next !== undefined && overtaken !== undefined && next < overtaken)
    throw new RuntimeError(
      'MIGRATION_FAILED',
      `Migration "${next}" of ${owner} comes before "${overtaken}", which this database has already run.`,
      {
        hint: 'Migrations run in the order of their names: give the new one a name after the last.',
      },
    )
  return next
}

function failure(owner: string, migration: string | undefined, error: unknown): unknown {
  if (error instanceof RuntimeError && error.code === 'MIGRATION_FAILED') return error
  const said = saidByDatabase(error).replace(/\.?$/, '.')
  return new RuntimeError(
    'MIGRATION_FAILED',
    migration === undefined
      ? `The migrations of ${owner} could not begin: ${said}`
      : `Migration "${migration}" of ${owner} failed: ${said}`,
    {
      hint: `The database kept nothing of the migration. ${makeRoomOr(said, 'Correct what the message names.')} Then start again.`,
      cause: error,
    },
  )
}

/**
 * The table that remembers what has run. Owners have hyphens and never underscores, so no two of
 * them share a table; a name too long for PostgreSQL, which would cut it, ends in its hash.
 */
function migrationTable(owner: string): string {
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(owner))
    throw new RuntimeError(
      'MIGRATION_FAILED',
      `"${owner}" cannot own migrations: its name is not lower-case words joined by hyphens.`,
    )
  const plain = owner.replaceAll('-', '_')
  if (plain.length <= 52) return `${plain}_migrations`
  const hash = createHash('sha256').update(owner).digest('hex').slice(0, 16)
  return `${plain.slice(0, 34)}__${hash}_migrations`
}
