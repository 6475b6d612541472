import type { Kysely } from 'kysely'

/** What the calls of one model cost one user in one day of UTC. No row holds a word of anybody. */
export type DayRow = {
  did: string
  /** `2027-01-31`. */
  day: string
  model: string
  calls: number
  input_tokens: number
  output_tokens: number
  cached_tokens: number
  cache_write_tokens: number
  reasoning_tokens: number
  /** 1 where any of it was estimated. */
  estimated: number
  /** Whole billionths of a US dollar, of the calls whose cost is known. */
  cost: number
  /** How many calls were of unknown cost. */
  unpriced: number
}

/** The tables of the plugin. */
export type UsageTables = {
  usage_days: DayRow
  /** The runs that are counted, so that none is counted twice. */
  usage_runs: { run_id: string; ended_at: number }
}

/** How long days are kept. */
export const keptDays = 400
/** How long it is remembered that a run is counted: longer than its end could be told again. */
export const keptRunDays = 35

/** The columns that are sums. */
export const sums = [
  'calls',
  'input_tokens',
  'output_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
  'cost',
  'unpriced',
] as const

type Any = Kysely<any> // any: a migration sees tables that no type knows yet

/** The migrations of the tables, in order. */
export const migrations = {
  '001-usage': async (db: Any) => {
    let days = db.schema
      .createTable('usage_days')
      .addColumn('did', 'varchar(512)', (column) => column.notNull())
      .addColumn('day', 'varchar(10)', (column) => column.notNull())
      .addColumn('model', 'varchar(300)', (column) => column.notNull())
      .addColumn('estimated', 'integer', (column) => column.notNull())
    for (const name of sums) days = days.addColumn(name, 'bigint', (column) => column.notNull())
    await days.addPrimaryKeyConstraint('usage_days_key', ['did', 'day', 'model']).execute()
    await db.schema.createIndex('usage_days_by_day').on('usage_days').column('day').execute()
    await db.schema
      .createTable('usage_runs')
      .addColumn('run_id', 'varchar(64)', (column) => column.primaryKey())
      .addColumn('ended_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('usage_runs_by_end').on('usage_runs').column('ended_at').execute()
  },
}
