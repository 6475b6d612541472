import { sql, type Kysely } from 'kysely'
import type { Database, RunEnding } from '#core'
import { dayOf, daysBefore } from './day.ts'
import { keptDays, keptRunDays, sums, type DayRow, type UsageTables } from './tables.ts'

/** The most of a count and of a cost that one run adds: sums of many days stay numbers that are exact. */
const most = { tokens: 1e11, cost: 1e12 }
/** How many rows of each table one sweep deletes at most. */
const sweepRows = 50_000

type Line = RunEnding['usage'][number]
type Days = Kysely<UsageTables>

/** The part of a row that sums stand in. */
export type Sums = Pick<DayRow, (typeof sums)[number] | 'estimated'>

/** Counts what a run cost, in the transaction that tells of its end. A run that is counted already adds nothing. */
export async function record(
  db: Database,
  { runId, did, endedAt, usage }: RunEnding,
): Promise<void> {
  if (usage.length === 0) return
  const days = db.withTables<UsageTables>()
  const isNew = await days
    .insertInto('usage_runs')
    .values({ run_id: runId, ended_at: endedAt.getTime() })
    .onConflict((conflict) => conflict.column('run_id').doNothing())
    .returning('run_id')
    .executeTakeFirst()
  if (!isNew) return
  const day = dayOf(endedAt)
  // Always in the same order: two runs of one user that end at once wait for each other, and never in a circle.
  for (const line of usage.toSorted((a, b) => (a.model < b.model ? -1 : 1)))
    await add(days, { did, day, model: line.model, ...sumsOf(line) })
}

/** Adds to the row of a user, a day and a model. */
export async function add(days: Days, row: DayRow): Promise<void> {
  await days
    .insertInto('usage_days')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['did', 'day', 'model']).doUpdateSet({
        ...Object.fromEntries(
          sums.map((name) => [name, sql`usage_days.${sql.ref(name)} + excluded.${sql.ref(name)}`]),
        ),
        estimated: sql`case when usage_days.estimated + excluded.estimated > 0 then 1 else 0 end`,
      }),
    )
    .execute()
}

/** What a line of a usage adds to a row. */
export function sumsOf(line: Line): Sums {
  const { calls = 1, cost } = line
  const count = (tokens = 0) => Math.min(tokens, most.tokens)
  return {
    calls: count(calls),
    input_tokens: count(line.inputTokens),
    output_tokens: count(line.outputTokens),
    cached_tokens: count(line.cachedTokens),
    cache_write_tokens: count(line.cacheWriteTokens),
    reasoning_tokens: count(line.reasoningTokens),
    estimated: line.estimated ? 1 : 0,
    cost: typeof cost === 'string' ? Math.min(Number(cost), most.cost) : 0,
    unpriced: typeof cost === 'string' ? 0 : count(calls),
  }
}

/** Deletes what is older than it is kept. What one sweep leaves, the next one takes. */
export async function sweep(db: Database, now: Date): Promise<void> {
  const tables = db.withTables<UsageTables>()
  const oldest = daysBefore(now, keptDays)
  await sql`delete from usage_days where (did, day, model) in (
    select did, day, model from usage_days where day < ${oldest} limit ${sweepRows})`.execute(
    tables,
  )
  const before = now.getTime() - keptRunDays * 86_400_000
  await sql`delete from usage_runs where run_id in (
    select run_id from usage_runs where ended_at < ${before} limit ${sweepRows})`.execute(tables)
}

/** The runs of these that are counted already. */
export async function countedOf(db: Database, runIds: readonly string[]): Promise<Set<string>> {
  if (runIds.length === 0) return new Set()
  const rows = await db
    .withTables<UsageTables>()
    .selectFrom('usage_runs')
    .select('run_id')
    .where('run_id', 'in', runIds)
    .execute()
  return new Set(rows.map(({ run_id }) => run_id))
}

/** What rows are sums of. */
export interface Question {
  readonly from: string
  readonly to: string
  /** Whose; of all users when absent. */
  readonly did?: string
  /** What each row stands for; one row for everything when absent. */
  readonly by?: 'day' | 'model' | 'did'
  readonly limit?: number
  readonly offset?: number
}

/** Sums of days. By day the newest stands first, else whoever used the most tokens. */
export async function read(
  db: Database,
  { from, to, did, by, limit = 1_000, offset = 0 }: Question,
): Promise<(Sums & { readonly key: string })[]> {
  const key = by ? sql.ref<string>(by) : sql<string>`''`
  let query = db
    .withTables<UsageTables>()
    .selectFrom('usage_days')
    .select(key.as('key'))
    .select(sums.map((name) => totalOf(name).as(name)))
    .select(sql<number>`coalesce(max(estimated), 0)`.as('estimated'))
    .where('day', '>=', from)
    .where('day', '<=', to)
  if (did !== undefined) query = query.where('did', '=', did)
  if (by) query = query.groupBy(by)
  const tokens = sql`sum(input_tokens) + sum(output_tokens)`
  const ordered =
    by === 'day'
      ? query.orderBy('day', 'desc')
      : by
        ? query.orderBy(tokens, 'desc').orderBy(by)
        : query
  const rows = await ordered.limit(limit).offset(offset).execute()
  // A database may give the sum of large numbers as text.
  return rows.map((row) => {
    const numbers = { estimated: Number(row.estimated) } as { -readonly [K in keyof Sums]: number }
    for (const name of sums) numbers[name] = Number(row[name])
    return { key: row.key, ...numbers }
  })
}

const totalOf = (name: (typeof sums)[number]) => sql<number>`coalesce(sum(${sql.ref(name)}), 0)`
