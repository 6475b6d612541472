import type { Kysely } from 'kysely'

type Connection = Kysely<any> // any: the tables are the writers' knowledge
type WriteAll<T> = (transaction: Connection, items: readonly T[]) => Promise<void>

/** Asks for an item to be written, at once or within some milliseconds; resolves when it is committed. */
export type Write<T> = (item: T, withinMs?: number) => Promise<void>

/** Writers of different kinds that share their transactions. */
export interface GroupCommit {
  /** A way in for one kind of item. `writeAll` gets those of one transaction, in their order. */
  writer<T>(writeAll: WriteAll<T>): Write<T>
  /** Writes what waits now; resolves when all that was asked for so far is committed or has failed. */
  flush(): Promise<void>
}

interface Waiting {
  readonly item: unknown
  readonly writeAll: WriteAll<unknown>
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Writes all that is asked for in one turn of the event loop in one transaction, and so with one
 * fsync, which costs more than the statements do. What is asked for while a transaction runs waits
 * for the next. An item that may wait a little goes with whatever is written first.
 */
export function groupCommit(db: Connection): GroupCommit {
  let waiting: Waiting[] = []
  let running: Promise<void> | undefined
  let soon: NodeJS.Immediate | undefined
  let later: { readonly timer: NodeJS.Timeout; readonly at: number } | undefined

  function schedule(withinMs: number) {
    if (running || soon) return
    if (withinMs <= 0) {
      soon = setImmediate(commit)
      return
    }
    const at = performance.now() + withinMs
    if (later && later.at <= at) return
    if (later) clearTimeout(later.timer)
    later = { timer: setTimeout(commit, withinMs), at }
  }

  function commit() {
    if (soon) clearImmediate(soon)
    if (later) clearTimeout(later.timer)
    soon = later = undefined
    const group = waiting
    waiting = []
    running = write(group).finally(() => {
      running = undefined
      if (waiting.length > 0) schedule(0)
    })
  }

  async function write(group: readonly Waiting[]) {
    try {
      await inTransaction(group)
      for (const { resolve } of group) resolve()
    } catch (error) {
      if (group.length === 1) return group[0]?.reject(error)
      // One bad item must not cost the others their write.
      for (const one of group) await inTransaction([one]).then(one.resolve, one.reject)
    }
  }

  function inTransaction(group: readonly Waiting[]) {
    return db.transaction().execute(async (transaction) => {
      const byWriter = Map.groupBy(group, ({ writeAll }) => writeAll)
      for (const [writeAll, mine] of byWriter)
        await writeAll(
          transaction,
          mine.map(({ item }) => item),
        )
    })
  }

  return {
    writer<T>(writeAll: WriteAll<T>): Write<T> {
      return (item, withinMs = 0) =>
        new Promise((resolve, reject) => {
          // Each item goes back to the writer it came through, so the type is the same again.
          waiting.push({ item, writeAll: writeAll as WriteAll<unknown>, resolve, reject })
          schedule(withinMs)
        })
    },
    async flush() {
      while (running || waiting.length > 0) {
        if (!running) commit()
        await running
      }
    },
  }
}
