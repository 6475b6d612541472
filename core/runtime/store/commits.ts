import type { Dialect, RunDatabase } from '../runs/run-tables.ts'

/** Changes the database, through the connection or the transaction it is given. It may run twice: the first is rolled back. */
export type Change<T> = (db: RunDatabase) => Promise<T>

interface Waiting {
  readonly change: Change<unknown>
  readonly settle: PromiseWithResolvers<unknown>
}

/**
 * Carries out changes. SQLite syncs the disk at every commit and takes one writer at a time, so all
 * changes of one tick share a transaction there; PostgreSQL does that work itself.
 */
export class Commits {
  readonly #db: RunDatabase
  readonly #dialect: Dialect
  #waiting: Waiting[] = []
  #committing = false

  constructor(db: RunDatabase, dialect: Dialect) {
    this.#db = db
    this.#dialect = dialect
  }

  /** One statement, or several that are right in any order of failure. */
  single<T>(change: Change<T>): Promise<T> {
    return this.#dialect === 'sqlite' ? this.#enqueue(change) : change(this.#db)
  }

  /** Several statements that happen together or not at all. */
  atomic<T>(change: Change<T>): Promise<T> {
    return this.#dialect === 'sqlite'
      ? this.#enqueue(change)
      : this.#db.transaction().execute(change)
  }

  #enqueue<T>(change: Change<T>): Promise<T> {
    const settle = Promise.withResolvers<unknown>()
    this.#waiting.push({ change, settle })
    if (!this.#committing) {
      this.#committing = true
      setImmediate(this.#commit)
    }
    return settle.promise as Promise<T> // settled with what this very change returns
  }

  #commit = async (): Promise<void> => {
    const group = this.#waiting
    this.#waiting = []
    try {
      const results = await this.#db.transaction().execute(async (trx) => {
        const values: unknown[] = []
        for (const { change } of group) values.push(await change(trx))
        return values
      })
      for (const [i, { settle }] of group.entries()) settle.resolve(results[i])
    } catch (error) {
      // One that fails must not take its neighbours along: each has its own transaction now.
      if (group.length === 1) group[0]?.settle.reject(error)
      else for (const each of group) await this.#commitAlone(each)
    }
    if (this.#waiting.length > 0) setImmediate(this.#commit)
    else this.#committing = false
  }

  async #commitAlone({ change, settle }: Waiting): Promise<void> {
    await this.#db.transaction().execute(change).then(settle.resolve, settle.reject)
  }
}
