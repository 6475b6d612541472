import type { Kysely, Transaction } from 'kysely'
import { type Count, lockedUntil, noCount, withAttempt, withoutAttempt } from './lock-rule.ts'
import type { Tables } from '../tables.ts'

/** How many counts that are over are removed by one attempt, which adds at most three. */
const forgottenAtOnce = 20

/**
 * Counts wrong PINs, in rows that every replica shares. An attempt is counted before its PIN is
 * looked at: of guesses at the same moment only as many get a look as there are left.
 */
export class Locks {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** The subjects of an attempt, always in this order, so that two attempts never wait for each other. */
  static subjectsOf(customerId: string, phone: string, isOwn: boolean): readonly string[] {
    const pair = `pair:${customerId}:${phone}`
    return isOwn ? [pair] : [pair, `account:${customerId}`, `phone:${phone}`]
  }

  /**
   * Counts an attempt for all of its subjects, or for none when one of them is locked: knocking does not
   * lengthen a lock. Answers until when it is locked; 0 when the PIN may be looked at.
   */
  async attempt(subjects: readonly string[]): Promise<number> {
    const now = Date.now()
    const known = await this.#db
      .selectFrom('ussd_locks')
      .selectAll()
      .where('subject', 'in', subjects)
      .execute()
    const until = lockedUntil(known, now)
    if (until > 0) return until
    await this.#forget(now)
    return this.#db.transaction().execute(async (trx) => {
      const counts = await this.#held(trx, subjects)
      const until = lockedUntil(counts, now)
      if (until > 0) return until
      for (const count of counts) await this.#write(trx, withAttempt(count, now))
      return 0
    })
  }

  /** The attempt was none: its PIN was right, or nobody could look at it. */
  async takeBack(subjects: readonly string[]): Promise<void> {
    const now = Date.now()
    await this.#db.transaction().execute(async (trx) => {
      for (const count of await this.#held(trx, subjects))
        await this.#write(trx, withoutAttempt(count, now))
    })
  }

  /** Forgets what was wrong before. */
  async clear(subject: string): Promise<void> {
    await this.#db.deleteFrom('ussd_locks').where('subject', '=', subject).execute()
  }

  /** The counts, held until the transaction ends; those that are not there yet are made. */
  async #held(trx: Transaction<Tables>, subjects: readonly string[]): Promise<Count[]> {
    return trx
      .insertInto('ussd_locks')
      .values(subjects.map(noCount))
      .onConflict((conflict) =>
        conflict.column('subject').doUpdateSet((eb) => ({ subject: eb.ref('excluded.subject') })),
      )
      .returningAll()
      .execute()
  }

  async #write(trx: Transaction<Tables>, { subject, ...count }: Count): Promise<void> {
    await trx.updateTable('ussd_locks').set(count).where('subject', '=', subject).execute()
  }

  /** One row at a time: a statement that holds several could wait for an attempt that waits for it. */
  async #forget(now: number): Promise<void> {
    const over = await this.#db
      .selectFrom('ussd_locks')
      .select('subject')
      .where('forget_at', '<=', now)
      .limit(forgottenAtOnce)
      .execute()
    for (const { subject } of over)
      await this.#db
        .deleteFrom('ussd_locks')
        .where('subject', '=', subject)
        .where('forget_at', '<=', now)
        .execute()
  }
}
