import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Kysely } from 'kysely'
import type { Log, Migration } from '../../plugin.ts'
import { RuntimeError } from '../../errors.ts'

/** Any number will do, as long as every version of the runtime takes the same. */
const lockKey = 7_021_460_583_129n

/** What a migrator works on. */
interface MigrationTarget {
  readonly kind: 'sqlite' | 'postgres'
  readonly db: Kysely<any> // any: migrations are about tables that no type knows yet
  readonly log: Log
}

/**
 * Runs the migrations of one owner that this database has not seen, in the order of their names.
 * Each is one transaction that takes the database's lock first and looks again at what has run, so
 * servers that boot together share the work and none does it twice. Returns what it ran itself.
 */
export async function migrate(
  { kind, db, log }: MigrationTarget,
  owner: string,
  migrations: Readonly<Record<string, Migration>>,
): Promise<string[]> {
  const table = migrationTable(owner)
  const names = Object.keys(migrations).sort()
  const ran: string[] = []
  let running: string | undefined
  const step = () =>
    db.transaction().execute(async (trx) => {
      running = undefined
      if (kind === 'postgres') await lock(trx, owner, log)
      await trx.schema
        .createTable(table)
        .ifNotExists()
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('ran_at', 'text', (column) => column.notNull())
        .execute()
      const rows = await trx.selectFrom(table).select('name').execute()
      const next = following(owner, names, new Set(rows.map((row): string => row.name)))
      const migration = next !== undefined && migrations[next]
      if (!migration) return false
      running = next
      await migration(trx)
      await trx.insertInto(table).values({ name: next, ran_at: new Date().toISOString() }).execute()
      return true
    })
  try {
    while (await step()) {
      ran.push(running!)
      log.info({ owner, migration: running }, 'Migration ran')
    }
  } catch (error) {
    throw failure(owner, running, error)
  }
  return ran
}

/** The names of an owner's migrations that this database has not seen, in their order. Changes nothing. */
export async function pendingMigrations(
  db: MigrationTarget['db'],
  owner: string,
  migrations: Readonly<Record<string, Migration>>,
): Promise<string[]> {
  const table = migrationTable(owner)
  const names = Object.keys(migrations).sort()
  const tables = await db.introspection.getTables()
  if (!tables.some(({ name }) => name === table)) return names
  const rows = await db.selectFrom(table).select('name').execute()
  const ran = new Set(rows.map((row): string => row.name))
  following(owner, names, ran)
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

/** The first name that has not run, after a check that what has run is the beginning of the list. */
function following(
  owner: string,
  names: readonly string[],
  ran: ReadonlySet<string>,
): string | undefined {
  const unknown = [...ran].sort().find((name) => !names.includes(name))
  if (unknown !== undefined)
    throw new RuntimeError(
      'MIGRATION_FAILED',
      `This database has run migration "${unknown}" of ${owner}, which ${owner} no longer has.`,
      {
        hint: `A newer version of ${owner} was here, or the migration was renamed: run that version, or bring the migration back.`,
      },
    )
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
  const cause = error instanceof Error ? error.message : String(error)
  return new RuntimeError(
    'MIGRATION_FAILED',
    migration === undefined
      ? `The migrations of ${owner} could not begin: ${cause}`
      : `Migration "${migration}" of ${owner} failed: ${cause}`,
    {
      hint: 'The database kept nothing of the migration. Correct what the message names and start again.',
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
