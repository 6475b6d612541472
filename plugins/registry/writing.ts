import { prepared } from '#core'
import type { Actor } from './rights/actor.ts'
import { bulkInsert } from './bulk.ts'
import type { ChangeRow, RegistryDatabase } from './tables.ts'

/** A change before its transaction numbers it; the transaction adds `seq`, `actor` and `at`. */
export type Change = Pick<ChangeRow, 'kind' | 'did' | 'version' | 'type' | 'action'> &
  Partial<Omit<ChangeRow, 'seq' | 'actor' | 'at'>>

/** A transaction that writes. No other transaction writes meanwhile, so what this one reads stays true until its commit. */
export class Writing {
  readonly db: RegistryDatabase
  readonly actor: Actor
  readonly at = new Date().toISOString()
  readonly changes: ChangeRow[] = []
  #next: number

  constructor(db: RegistryDatabase, actor: Actor, first: number) {
    this.db = db
    this.actor = actor
    this.#next = first
  }

  /** Records a change and returns its number. The feed tells of the change after the commit. */
  change({
    about = null,
    controller = null,
    protocol = null,
    protocol_version = null,
    properties = null,
    details = null,
    ...change
  }: Change): number {
    const seq = this.#next++
    const { at, actor } = this
    const state = { about, controller, protocol, protocol_version, properties, details }
    this.changes.push({ seq, actor: actor.name, at, ...change, ...state })
    return seq
  }
}

/** Runs `work` in a transaction that writes. */
export type Write = <T>(actor: Actor, work: (writing: Writing) => Promise<T>) => Promise<T>

/** Runs transactions that write, one after the other, and calls `committed` after each. */
export class Writer {
  readonly #db: RegistryDatabase
  readonly #committed: () => void
  readonly #enter
  readonly #advance
  readonly #insertChanges
  #last: Promise<unknown> = Promise.resolve()

  constructor(db: RegistryDatabase, committed: () => void) {
    this.#db = db
    this.#committed = committed
    this.#enter = prepared(db, (_: {}) =>
      db
        .updateTable('registry_clock')
        .set((clock) => ({ seq: clock('seq', '+', 1) }))
        .where('id', '=', 1)
        .returning('seq'),
    )
    this.#advance = prepared(db, ({ seq }: { seq: number }) =>
      db.updateTable('registry_clock').set({ seq }).where('id', '=', 1),
    )
    this.#insertChanges = bulkInsert(db, 'registry_changes', changeColumns)
  }

  /** Runs `work` after all earlier writes. Writers wait here, and not in the database, where each would hold a connection. */
  write<T>(actor: Actor, work: (writing: Writing) => Promise<T>): Promise<T> {
    const mine = this.#last.then(() => this.#transact(actor, work))
    this.#last = mine.catch(() => {})
    return mine
  }

  async #transact<T>(actor: Actor, work: (writing: Writing) => Promise<T>): Promise<T> {
    const result = await this.#db.transaction().execute(async (transaction) => {
      // A second server waits here for the writer before it, whose commit frees the row.
      const { rows } = await this.#enter({}, transaction)
      const [clock] = rows
      if (!clock) throw new Error('registry_clock has no row.')
      const writing = new Writing(transaction, actor, clock.seq)
      const result = await work(writing)
      const { changes } = writing
      if (changes.length !== 1)
        await this.#advance({ seq: clock.seq - 1 + changes.length }, transaction)
      await this.#insertChanges(changes, transaction)
      return result
    })
    this.#committed()
    return result
  }
}

const changeColumns = [
  'seq',
  'kind',
  'did',
  'version',
  'type',
  'action',
  'actor',
  'at',
  'about',
  'controller',
  'protocol',
  'protocol_version',
  'properties',
  'details',
] as const
