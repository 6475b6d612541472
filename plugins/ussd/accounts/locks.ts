import type { Kysely, Transaction } from 'kysely'
import { type Count, lockedUntil, noCount, withAttempt, withoutAttempt } from './lock-rule.ts'
import type { Tables } from '../tables.ts'

/** How many old counts one attempt deletes; an attempt adds at most three. */
const forgottenAtOnce = 20

/**
 * Counts wrong PINs in rows that all replicas share. `attempt` counts an attempt before its PIN is checked, so that many
 * guesses at the same moment do not get more checks than the limit allows.
 */
export class Locks {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** The subjects of an attempt, always in the same order, so that two attempts never lock rows against each other. */
  static subjectsOf(customerId: string, phone: string, isOwn: boolean): readonly string[] {
    const pair = `pair:${customerId}:${phone}`
    return isOwn ? [pair] : [pair, `account:${customerId}`, `phone:${phone}`]
  }

  /**
   * Counts an attempt for all of its subjects, or for none when one of them is locked, so that attempts during a lock do not
   * lengthen the lock. Resolves to the end of the longest lock, or to 0 when the PIN may be checked.
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

  /** Uncounts an attempt whose PIN was right, or could not be checked. */
  async takeBack(subjects: readonly string[]): Promise<void> {
    const now = Date.now()
    await this.#db.transaction().execute(async (trx) => {
      for (const count of await this.#held(trx, subjects))
        await this.#write(trx, withoutAttempt(count, now))
    })
  }

  /** Deletes the count of a subject. */
  async clear(subject: string): Promise<void> {
    await this.#db.deleteFrom('ussd_locks').where('subject', '=', subject).execute()
  }

  /** The counts of the subjects, whose rows stay locked until the transaction ends; missing rows are inserted. */
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

  /** Deletes old counts one by one: a statement that locks several rows could deadlock with an attempt. */
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
