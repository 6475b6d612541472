import { type RunDatabase, withRunTables } from './tables.ts'
import type { Store } from '../../store/store.ts'

/** Changes the database through the connection or transaction `db`. A change may run twice; then the first run is rolled back. */
export type Change<T> = (db: RunDatabase) => Promise<T>

/** Whether a change counts as done once it survives a power cut, or already once it survives the process. */
export type Durability = 'synced' | 'unsynced'

interface Waiting {
  readonly change: Change<unknown>
  readonly durability: Durability
  readonly settle: PromiseWithResolvers<unknown>
}

/** The part of the store that commits need. */
export type CommitStore = Pick<Store, 'db' | 'unsynced' | 'synced' | 'kind' | 'now' | 'direct'>

/**
 * Commits changes. SQLite syncs the disk at every commit and takes one writer at a time, so all
 * changes of one tick share a transaction there; PostgreSQL does that work itself.
 */
export class Commits {
  readonly #store: CommitStore
  readonly #db: RunDatabase
  readonly #unsynced: RunDatabase
  #waiting: Waiting[] = []
  #committing = false

  constructor(store: CommitStore) {
    this.#store = store
    this.#db = withRunTables(store.db)
    this.#unsynced = withRunTables(store.unsynced)
  }

  /** Runs one statement, or several of which any may fail without the others. */
  single<T>(change: Change<T>, durability: Durability = 'synced'): Promise<T> {
    const isSqlite = this.#store.kind === 'sqlite'
    return isSqlite ? this.#enqueue(change, durability) : change(this.#db)
  }

  /** Runs several statements that happen together or not at all. */
  atomic<T>(change: Change<T>, durability: Durability = 'synced'): Promise<T> {
    const isSqlite = this.#store.kind === 'sqlite'
    return isSqlite ? this.#enqueue(change, durability) : this.#db.transaction().execute(change)
  }

  /**
   * Runs several statements that happen together or not at all, and shares their transaction with nobody: the change may fail,
   * or take its time, and no other change has to run again for that. It counts as done once it survives the process.
   */
  alone<T>(change: Change<T>): Promise<T> {
    const isSqlite = this.#store.kind === 'sqlite'
    return isSqlite ? this.#transaction(change) : this.#db.transaction().execute(change)
  }

  #enqueue<T>(change: Change<T>, durability: Durability): Promise<T> {
    const settle = Promise.withResolvers<unknown>()
    this.#waiting.push({ change, durability, settle })
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
      const results = await this.#transaction(async (trx) => {
        const values: unknown[] = []
        for (const { change } of group) values.push(await change(trx))
        return values
      })
      for (const [i, waiting] of group.entries()) this.#settle(waiting, results[i])
    } catch (error) {
      // A change that fails must not take the others of its group along: each gets a transaction of its own now.
      if (group.length === 1) group[0]?.settle.reject(error)
      else for (const each of group) await this.#commitAlone(each)
    }
    if (this.#waiting.length > 0) setImmediate(this.#commit)
    else this.#committing = false
  }

  async #commitAlone(waiting: Waiting): Promise<void> {
    const { change, settle } = waiting
    await this.#transaction(change).then((result) => this.#settle(waiting, result), settle.reject)
  }

  /** Within it, compiled statements go straight to the connection; what Kysely builds itself goes its own way. */
  #transaction<T>(change: Change<T>): Promise<T> {
    const { direct } = this.#store
    if (!direct) return this.#unsynced.transaction().execute(change)
    return this.#unsynced.transaction().execute(async (trx) => {
      const { executeQuery } = trx
      trx.executeQuery = direct()
      // Kysely makes another transaction object for other tables, whose statements would go the long way.
      trx.withTables = () => trx as never // the types of the tables are all that differs
      try {
        return await change(trx)
      } finally {
        // Whoever uses the transaction after its end is refused, as Kysely does it.
        trx.executeQuery = executeQuery
      }
    })
  }

  /** Settles a change, a synced one when the disk has it: the next group may be written while the disk still works. */
  #settle({ durability, settle }: Waiting, result: unknown): void {
    if (durability === 'unsynced') settle.resolve(result)
    else this.#store.synced().then(() => settle.resolve(result), settle.reject)
  }
}
