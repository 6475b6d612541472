import { Cache } from '../../base/cache.ts'
import type { Item, StoredCheckpoint } from './checkpointer.ts'
import type { ValueRow } from './checkpoint-tables.ts'

/** How many threads are kept, and how many characters the rows of one may have: at most 4 million in all. */
const most = { threads: 256, characters: 16 * 1024 }

/** The versions of the channels of a checkpoint. */
type Versions = Readonly<Record<string, string | number>>

/**
 * The newest checkpoint that this process has written of each thread, so that the next turn need not read it again. A
 * checkpoint never changes under its id, and the row of a run names the id that counts: what another process has written
 * since has another id, and is read from the database.
 */
export class NewestCheckpoints {
  readonly #kept = new Cache<StoredCheckpoint>(most.threads)

  /** The rows of a thread's checkpoint, where this process has written it and nothing after it. */
  get(thread: string, id: string): StoredCheckpoint | undefined {
    const kept = this.#kept.get(thread)
    return kept?.row.id === id ? kept : undefined
  }

  /** Keeps the checkpoint of a change. `before` has the values of the channels that the change leaves as they are. */
  keep(
    item: Item | undefined,
    versions: Versions,
    before: readonly ValueRow[],
  ): StoredCheckpoint | undefined {
    const [row] = (item && !('deleteThread' in item) && item.checkpoints) || []
    if (!row || !item || 'deleteThread' in item) return undefined
    const byChannel = new Map(before.map((value) => [value.channel, value]))
    for (const value of item.values ?? []) byChannel.set(value.channel, value)
    // A channel that is empty at its version has no row.
    const values = [...byChannel.values()].filter(
      ({ channel, version }) => String(versions[channel]) === version,
    )
    const stored = { row, values, writes: [] }
    let length = row.state.length + row.metadata.length
    for (const { value } of values) length += value.length
    if (length > most.characters) this.#kept.delete(row.thread_id)
    else this.#kept.set(row.thread_id, stored)
    return stored
  }

  /** Forgets the checkpoint of a thread. */
  forget(thread: string): void {
    this.#kept.delete(thread)
  }
}
