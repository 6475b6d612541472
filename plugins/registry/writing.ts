import { prepared } from '#core'
import type { Actor } from './rights/actor.ts'
import { bulkInsert } from './bulk.ts'
import type { ChangeRow, RegistryDatabase } from './tables.ts'

/** What a change tells; the rest is known of the transaction, or is nothing. */
export type Change = Pick<ChangeRow, 'kind' | 'did' | 'version' | 'type' | 'action'> &
  Partial<Omit<ChangeRow, 'seq' | 'actor' | 'at'>>

/** A transaction that writes. Nobody else writes meanwhile, so what it reads stays true until it is over. */
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

  /** Records a change and numbers it. The feed tells of it once all is committed. */
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

export type Write = <T>(actor: Actor, work: (writing: Writing) => Promise<T>) => Promise<T>

/** Writes transaction by transaction; `committed` is called after each. */
export function writer(db: RegistryDatabase, committed: () => void): Write {
  const enter = prepared(db, (_: {}) =>
    db
      .updateTable('registry_clock')
      .set((clock) => ({ seq: clock('seq', '+', 1) }))
      .where('id', '=', 1)
      .returning('seq'),
  )
  const advance = prepared(db, ({ seq }: { seq: number }) =>
    db.updateTable('registry_clock').set({ seq }).where('id', '=', 1),
  )
  const insertChanges = bulkInsert(db, 'registry_changes', [
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
  ])
  let last: Promise<unknown> = Promise.resolve()

  async function transact<T>(actor: Actor, work: (writing: Writing) => Promise<T>): Promise<T> {
    const result = await db.transaction().execute(async (transaction) => {
      // Whoever comes here waits for the writer before, whose commit frees the row.
      const { rows } = await enter({}, transaction)
      const writing = new Writing(transaction, actor, rows[0]!.seq)
      const result = await work(writing)
      const { changes } = writing
      if (changes.length !== 1)
        await advance({ seq: rows[0]!.seq - 1 + changes.length }, transaction)
      await insertChanges(changes, transaction)
      return result
    })
    committed()
    return result
  }

  // The database lets one of them in at a time. Whoever waits does so here, without a connection that readers need.
  return (actor, work) => {
    const mine = last.then(() => transact(actor, work))
    last = mine.catch(() => {})
    return mine
  }
}
