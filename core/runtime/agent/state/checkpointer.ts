import type { RunnableConfig } from '@langchain/core/runnables'
import {
  BaseCheckpointSaver,
  getCheckpointId,
  maxChannelVersion,
  TASKS,
  WRITES_IDX_MAP,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  type PendingWrite,
} from '@langchain/langgraph-checkpoint'
import type { Kysely } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { Database } from '../../../plugin.ts'
import {
  deleteAll,
  insertionsOf,
  insertRows,
  rowsPerStatement,
  selectCheckpoint,
  selectPage,
  selectValues,
  selectWrites,
  type CheckpointRow,
  type Rows,
  type ValueRow,
  type WriteRow,
} from './checkpoint-tables.ts'
import { fromText, toText } from './checkpoint-text.ts'
import type { EndRows } from '../../turns/run.ts'

/** One change of the tables: rows to add, or a thread to delete. */
export type Item = Rows | { readonly deleteThread: string }

/** A checkpoint as its rows have it, with the values of its channels and what tasks wrote on top of it. */
export interface StoredCheckpoint {
  readonly row: CheckpointRow
  readonly values: readonly ValueRow[]
  readonly writes: readonly WriteRow[]
}

type State = Omit<Checkpoint, 'id' | 'channel_values'>

/** LangGraph's checkpoints in the runtime's own database, SQLite or PostgreSQL. */
export class Checkpointer extends BaseCheckpointSaver {
  readonly #db: Kysely<any> // any: only `checkpoint-tables.ts` knows the tables
  #written: Promise<void> = Promise.resolve()

  constructor(db: Database) {
    super()
    this.#db = db
  }

  /**
   * Counts up and adds a random fraction. Two processes may go on from one checkpoint, when one takes over a run from another
   * that still lives; the fractions keep them from giving the same version to two values.
   */
  override getNextVersion(current: number | undefined): number {
    return Math.floor(current ?? 0) + 1 + Math.floor(Math.random() * 1e9) / 1e9
  }

  /** The checkpoint that the config names, or the newest of its thread. */
  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { thread_id: thread, checkpoint_ns: namespace = '' } = config.configurable ?? {}
    if (thread === undefined) return undefined
    const stored = await this.stored(thread, namespace, getCheckpointId(config))
    return stored && (await this.tuple(stored))
  }

  /** The rows of a checkpoint; with an empty id those of the newest of the thread. */
  protected async stored(
    thread: string,
    namespace: string,
    id: string,
  ): Promise<StoredCheckpoint | undefined> {
    const row = await selectCheckpoint(this.#db, thread, namespace, id)
    return row && (await this.#whole(row))
  }

  /** The checkpoints that the config and the options choose, newest first. */
  async *list(
    config: RunnableConfig,
    { before, limit = Infinity, filter = {} }: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { thread_id: thread, checkpoint_ns: namespace } = config.configurable ?? {}
    const where = {
      thread,
      namespace,
      id: getCheckpointId(config) || undefined,
      before: before && getCheckpointId(before),
    }
    let left = limit
    for (let after: CheckpointRow | undefined; left > 0;) {
      const page = await selectPage(this.#db, where, after, Math.min(left, 100))
      for (const row of page) {
        const metadata = Object.entries(filter).length > 0 && (await this.#read(row.metadata))
        if (metadata && !matches(metadata, filter)) continue
        yield await this.tuple(await this.#whole(row))
        if (--left === 0) return
      }
      after = page.at(-1)
      if (!after) return
    }
  }

  /** Keeps a checkpoint with the channel values that are new in it. */
  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread, namespace } = place(config)
    const { id, channel_values: values, ...state } = checkpoint
    const row = {
      thread_id: thread,
      namespace,
      id,
      parent_id: getCheckpointId(config) || null,
      state: await toText(state, this.serde),
      metadata: await toText(metadata, this.serde),
    }
    const changed = Object.entries(newVersions).filter(([channel]) =>
      Object.hasOwn(values, channel),
    )
    const texts = await Promise.all(
      changed.map(async ([channel, version]) => ({
        thread_id: thread,
        namespace,
        channel,
        version: String(version),
        value: await toText(values[channel], this.serde),
      })),
    )
    await this.write({ checkpoints: [row], values: texts }, config)
    return configOf(thread, namespace, id)
  }

  /** Keeps what a task wrote on top of a checkpoint. */
  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const { thread, namespace } = place(config)
    const checkpoint = getCheckpointId(config)
    if (!checkpoint) throw missing('checkpoint_id')
    const rows = writes.map(async ([channel, value], nth) => ({
      thread_id: thread,
      namespace,
      checkpoint_id: checkpoint,
      task_id: taskId,
      // Errors and interrupts have fixed positions below zero, so that a later one replaces an earlier one.
      position: WRITES_IDX_MAP[channel] ?? nth,
      channel,
      value: await toText(value, this.serde),
    }))
    await this.write({ writes: await Promise.all(rows) }, config)
  }

  /** Deletes all that the tables have of a thread. */
  async deleteThread(threadId: string): Promise<void> {
    await this.write({ deleteThread: requireThread(threadId) })
  }

  /** Writes a change, after the changes that callers asked for before. */
  protected write(item: Item, _config?: RunnableConfig): Promise<void> {
    const write = () =>
      this.#db.transaction().execute((transaction) => writeAll(transaction, [item]))
    const written = this.#written.then(write)
    this.#written = written.catch(() => undefined) // the caller of `write` gets the error
    return written
  }

  /** A row with the rows that belong to it. */
  async #whole(row: CheckpointRow): Promise<StoredCheckpoint> {
    const { thread_id: thread, namespace, id } = row
    const { channel_versions } = await this.#stateOf(row)
    const [values, writes] = await Promise.all([
      selectValues(this.#db, thread, namespace, channel_versions),
      selectWrites(this.#db, thread, namespace, id),
    ])
    return { row, values, writes }
  }

  /** What LangGraph gets of the rows of a checkpoint. */
  protected async tuple({ row, values, writes }: StoredCheckpoint): Promise<CheckpointTuple> {
    const { thread_id: thread, namespace, id, parent_id: parent } = row
    const [state, channel_values, pendingWrites, metadata] = await Promise.all([
      this.#stateOf(row),
      this.#values(values),
      this.#writes(writes),
      this.#read(row.metadata) as Promise<CheckpointMetadata>,
    ])
    const checkpoint: Checkpoint = { ...state, id, channel_values }
    if (checkpoint.v < 4 && parent !== null) {
      const ofParent = await selectWrites(this.#db, thread, namespace, parent)
      moveSends(checkpoint, await this.#writes(ofParent), (v) => this.getNextVersion(v))
    }
    return {
      config: configOf(thread, namespace, id),
      checkpoint,
      metadata,
      parentConfig: parent === null ? undefined : configOf(thread, namespace, parent),
      pendingWrites,
    }
  }

  async #values(rows: readonly ValueRow[]) {
    const entries = rows.map(async ({ channel, value }): Promise<[string, unknown]> => [
      channel,
      await this.#read(value),
    ])
    // Object.fromEntries sets a channel named __proto__ like any other channel.
    return Object.fromEntries(await Promise.all(entries))
  }

  async #writes(rows: readonly WriteRow[]): Promise<CheckpointPendingWrite[]> {
    const writes = rows.map(
      async ({ task_id, channel, value }): Promise<CheckpointPendingWrite> => [
        task_id,
        channel,
        await this.#read(value),
      ],
    )
    return await Promise.all(writes)
  }

  #stateOf(row: CheckpointRow): Promise<State> {
    return this.#read(row.state) as Promise<State> // written by `put`
  }

  #read(text: string): Promise<unknown> {
    return fromText(text, this.serde)
  }
}

/** Writes several changes. Rows between two deletions go in together, in few statements; deletions keep their place. */
export async function writeAll(transaction: Kysely<any>, items: readonly Item[]): Promise<void> {
  let gathered: Rows[] = []
  for (const item of items) {
    if (!('deleteThread' in item)) {
      gathered.push(item)
      continue
    }
    await insertRows(transaction, gathered)
    gathered = []
    await deleteAll(transaction, item.deleteThread)
  }
  await insertRows(transaction, gathered)
}

/** The rows of such changes; undefined where a thread is deleted among them, or where they are too many for one statement. */
export function rowsToInsert(items: readonly Item[]): EndRows[] | undefined {
  const all = items.flatMap((item) => ('deleteThread' in item ? [] : [item]))
  if (all.length < items.length) return undefined
  const inserts = insertionsOf(all)
  const count = inserts.reduce((sum, { rows }) => sum + rows.length, 0)
  return count <= rowsPerStatement ? inserts : undefined
}

/** Moves the sends of a checkpoint older than version 4, which LangGraph kept with the writes of the parent. */
function moveSends(
  checkpoint: Checkpoint,
  parentWrites: readonly CheckpointPendingWrite[],
  next: (version: undefined) => number,
) {
  const sends = parentWrites.filter(([, channel]) => channel === TASKS).map(([, , send]) => send)
  if (sends.length === 0) return
  const versions = Object.values(checkpoint.channel_versions)
  checkpoint.channel_values[TASKS] = sends
  checkpoint.channel_versions[TASKS] =
    versions.length > 0 ? maxChannelVersion(...versions) : next(undefined)
}

function matches(metadata: unknown, filter: Record<string, unknown>): boolean {
  return Object.entries(filter).every(
    ([key, value]) => (metadata as Record<string, unknown>)[key] === value,
  )
}

function configOf(thread: string, namespace: string, id: string): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id } }
}

function place(config: RunnableConfig): { thread: string; namespace: string } {
  const { thread_id, checkpoint_ns: namespace = '' } = config.configurable ?? {}
  return { thread: requireThread(thread_id), namespace }
}

/**
 * Gives the id of a thread back, or throws an error that says what is wrong with the id. LangGraph writes checkpoints in the
 * background, where a fault would end the process, so a caller that starts a graph checks the id first.
 */
export function requireThread(threadId: unknown): string {
  if (threadId === undefined || threadId === null) throw missing('thread_id')
  if (typeof threadId !== 'string' || threadId === '' || threadId.includes('\0'))
    throw new RuntimeError('INTERNAL', 'A thread_id is text, not empty and without U+0000.')
  return threadId
}

function missing(field: string) {
  return new RuntimeError('INTERNAL', `A checkpoint cannot be written without ${field}.`, {
    hint: 'Start the graph with { configurable: { thread_id } }.',
  })
}
