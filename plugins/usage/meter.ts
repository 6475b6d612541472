import { RuntimeError, type Database, type Log, type ModelCall, type RunEnding } from '#core'
import { allUsage, ownUsage, shown, type allQuery, type ownQuery } from './answers.ts'
import { countedOf, read, record, type Sums } from './book.ts'
import { costBudget, demandBudget, tokenBudget, type Budgets } from './budget.ts'
import { dayOf, daysBefore } from './day.ts'
import { CallsOutside } from './outside.ts'
import { RunsUnderWay, type Spent } from './under-way.ts'
import type { z } from 'zod'

/** How often the sums are read anew because a run was counted meanwhile; after that one may count twice for a moment. */
const mostTries = 3
/** How many days an answer is about that was asked without any. */
const usualDays = 30

/** Counts what users use up, and says what is left of their allowances. */
export class Meter {
  readonly budgets: Budgets
  readonly #db: Database
  readonly #now: () => Date
  readonly #underWay = new RunsUnderWay()
  readonly #outside: CallsOutside

  constructor(options: {
    readonly budgets: Budgets
    readonly db: Database
    readonly now: () => Date
    readonly log: Log
  }) {
    this.budgets = options.budgets
    this.#db = options.db
    this.#now = options.now
    this.#outside = new CallsOutside(options.db, options.log)
  }

  /** Hears of a call that has ended. */
  hear(call: ModelCall): void {
    if (call.runId === undefined) this.#outside.add(call, this.#now())
    else if (this.#isLimited) this.#underWay.add(call, this.#now())
  }

  /** Resolves when no call waits to be counted. */
  async close(): Promise<void> {
    await this.#outside.settled()
  }

  /** Refuses a turn of a user whose allowance is used up. */
  async admit(did: string): Promise<void> {
    if (this.#isLimited) demandBudget(this.budgets, await this.#spentToday(did), this.#now())
  }

  /** Counts a run that has ended, in the transaction that tells of it. */
  async end(db: Database, run: RunEnding): Promise<void> {
    await record(db, run)
  }

  /** What `GET /usage` answers. */
  async own(did: string, { by, ...asked }: z.infer<typeof ownQuery>) {
    const now = this.#now()
    const span = spanOf(asked, now)
    await this.#outside.settled()
    const [rows, [total]] = await Promise.all([
      read(this.#db, { ...span, did, by }),
      read(this.#db, { ...span, did }),
    ])
    const spent = this.#isLimited ? await this.#spentToday(did) : { tokens: 0, cost: 0 }
    return {
      ...span,
      rows: rows.map(({ key, ...sums }) => ({ [by]: key, ...shown(sums) })),
      total: shown(total ?? none),
      budget: tokenBudget(this.budgets, spent, now),
      costBudget: costBudget(this.budgets, spent, now),
    } satisfies z.infer<typeof ownUsage>
  }

  /** What `GET /usage/all` answers. */
  async all({ by, limit, cursor, ...asked }: z.infer<typeof allQuery>) {
    const span = spanOf(asked, this.#now())
    await this.#outside.settled()
    const column = by === 'user' ? 'did' : by
    const offset = Number(cursor ?? 0)
    const [rows, [total]] = await Promise.all([
      read(this.#db, { ...span, by: column, limit: limit + 1, offset }),
      read(this.#db, span),
    ])
    return {
      ...span,
      rows: rows.slice(0, limit).map(({ key, ...sums }) => ({ [column]: key, ...shown(sums) })),
      total: shown(total ?? none),
      ...(rows.length > limit && { cursor: String(offset + limit) }),
    } satisfies z.infer<typeof allUsage>
  }

  get #isLimited(): boolean {
    return this.budgets.tokensPerDay > 0 || this.budgets.costPerDay > 0
  }

  /** What a user has used up today: what the table counts, and what it does not count yet. */
  async #spentToday(did: string): Promise<Spent> {
    const day = dayOf(this.#now())
    await this.#outside.settled()
    const ids = this.#underWay.idsOf(did, day)
    let counted = await countedOf(this.#db, ids)
    let row: Sums | undefined
    // A run that is counted between two questions would stand in neither answer, or in both, so the sums are read anew then.
    for (let tries = 0; ; tries++) {
      ;[row] = await read(this.#db, { from: day, to: day, did })
      const since = await countedOf(this.#db, ids)
      if (since.size === counted.size || tries === mostTries) break
      counted = since
    }
    this.#underWay.forget(counted)
    const open = this.#underWay.sumOf(ids)
    const { input_tokens = 0, output_tokens = 0, cost = 0 } = row ?? {}
    return { tokens: input_tokens + output_tokens + open.tokens, cost: cost + open.cost }
  }
}

const none = {
  calls: 0,
  input_tokens: 0,
  output_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  estimated: 0,
  cost: 0,
  unpriced: 0,
}

/** The days that were asked for. */
function spanOf({ from, to }: { from?: string; to?: string }, now: Date) {
  const last = to ?? dayOf(now)
  const first = from ?? daysBefore(new Date(`${last}T00:00:00Z`), usualDays - 1)
  if (first > last)
    throw new RuntimeError('INVALID_INPUT', `"from" is ${first}, after "to", which is ${last}.`, {
      hint: 'Give a "from" that is no later, or leave it out.',
    })
  return { from: first, to: last }
}
