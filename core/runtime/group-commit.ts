import type { Kysely } from 'kysely'

interface Waiting<T> {
  readonly item: T
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Writes all that is asked for in one turn of the event loop in one transaction, and so with one
 * fsync. What is asked for while a transaction runs waits for the next. The promise of an item
 * resolves when it is committed.
 */
export function groupCommit<T>(
  db: Kysely<any>, // any: the tables are the writer's knowledge
  writeAll: (transaction: Kysely<any>, items: readonly T[]) => Promise<void>,
): (item: T) => Promise<void> {
  let waiting: Waiting<T>[] = []
  let scheduled = false

  const inTransaction = (items: readonly T[]) =>
    db.transaction().execute((transaction) => writeAll(transaction, items))

  async function commit() {
    const group = waiting
    waiting = []
    try {
      await inTransaction(group.map(({ item }) => item))
      for (const { resolve } of group) resolve()
    } catch (error) {
      if (group.length === 1) group[0]?.reject(error)
      else await oneByOne(group)
    }
    if (waiting.length > 0) schedule()
    else scheduled = false
  }

  /** One bad item must not cost the others their write. */
  async function oneByOne(group: readonly Waiting<T>[]) {
    for (const { item, resolve, reject } of group) await inTransaction([item]).then(resolve, reject)
  }

  function schedule() {
    scheduled = true
    setImmediate(() => void commit())
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (!scheduled) schedule()
    })
}
