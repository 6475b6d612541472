import { type RawBuilder, sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/**
 * The form of what this version stores of runs, waiting turns and jobs. A version that stores them in another way counts one
 * up and writes its number into the column `v`. A server leaves rows of a higher number to a server that knows them.
 */
const storedVersion = 1

/** Whether this version knows how a row is stored. */
export const isKnownForm: RawBuilder<boolean> = sql<boolean>`v <= ${sql.lit(storedVersion)}`

const add =
  (table: string): Migration =>
  async (db) => {
    await sql`alter table ${sql.table(table)} add column v integer not null default 1`.execute(db)
  }

/** Adds to runs and waiting turns the form in which each is stored, for the migration owner `kernel-runs`. */
export const runFormsMigration: Migration = async (db) => {
  await add('kernel_runs')(db)
  await add('kernel_waiting_turns')(db)
}

/** Adds to jobs the form in which each is stored, for the migration owner `kernel`. */
export const jobFormsMigration: Migration = add('kernel_jobs')
