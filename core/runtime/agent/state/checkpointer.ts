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
  insertRows,
  selectCheckpoint,
  selectPage,
  selectValues,
  selectWrites,
  type CheckpointRow,
  type Rows,
} from './checkpoint-tables.ts'
import { fromText, toText } from './checkpoint-text.ts'

/** A change of what is kept. */
export type Item = Rows | { readonly deleteThread: string }

/** LangGraph's checkpoints in the runtime's own database, SQLite or PostgreSQL. */
export class Checkpointer extends BaseCheckpointSaver {
  readonly #db: Kysely<any> // any: the tables are this file's own knowledge
  #written: Promise<void> = Promise.resolve()

  constructor(db: Database) {
    super()
    this.#db = db
  }

  /**
   * Counts up, with a fraction by chance: two runs that go on from one checkpoint (a takeover from a
   * process that still breathes) must not give one version to two values.
   */
  override getNextVersion(current: number | undefined): number {
    return Math.floor(current ?? 0) + 1 + Math.floor(Math.random() * 1e9) / 1e9
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { thread_id: thread, checkpoint_ns: namespace = '' } = config.configurable ?? {}
    if (thread === undefined) return undefined
    const row = await selectCheckpoint(this.#db, thread, namespace, getCheckpointId(config))
    return row && (await this.#tuple(row))
  }

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
        yield await this.#tuple(row)
        if (--left === 0) return
      }
      after = page.at(-1)
      if (!after) return
    }
  }

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

  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const { thread, namespace } = place(config)
    const checkpoint = getCheckpointId(config)
    if (!checkpoint) throw missing('checkpoint_id')
    const rows = writes.map(async ([channel, value], nth) => ({
      thread_id: thread,
      namespace,
      checkpoint_id: checkpoint,
      task_id: taskId,
      // Errors and interrupts have places of their own, so that a later one takes the earlier's.
      position: WRITES_IDX_MAP[channel] ?? nth,
      channel,
      value: await toText(value, this.serde),
    }))
    await this.write({ writes: await Promise.all(rows) }, config)
  }

  async deleteThread(threadId: string): Promise<void> {
    await this.write({ deleteThread: requireThread(threadId) })
  }

  /** Makes a change, after those that were asked for before it. */
  protected write(item: Item, _config?: RunnableConfig): Promise<void> {
    const write = () =>
      this.#db.transaction().execute((transaction) => writeAll(transaction, [item]))
    const written = this.#written.then(write)
    this.#written = written.catch(() => undefined) // whoever asked for it is told
    return written
  }

  async #tuple(row: CheckpointRow): Promise<CheckpointTuple> {
    const { thread_id: thread, namespace, id, parent_id: parent } = row
    const state = (await this.#read(row.state)) as Omit<Checkpoint, 'id' | 'channel_values'>
    const [values, writes, metadata] = await Promise.all([
      this.#values(thread, namespace, state.channel_versions),
      this.#writes(thread, namespace, id),
      this.#read(row.metadata) as Promise<CheckpointMetadata>,
    ])
    const checkpoint: Checkpoint = { ...state, id, channel_values: values }
    if (checkpoint.v < 4 && parent !== null)
      moveSends(checkpoint, await this.#writes(thread, namespace, parent), (v) =>
        this.getNextVersion(v),
      )
    return {
      config: configOf(thread, namespace, id),
      checkpoint,
      metadata,
      parentConfig: parent === null ? undefined : configOf(thread, namespace, parent),
      pendingWrites: writes,
    }
  }

  async #values(thread: string, namespace: string, versions: ChannelVersions) {
    const rows = await selectValues(this.#db, thread, namespace, versions)
    const entries = rows.map(async ({ channel, value }): Promise<[string, unknown]> => [
      channel,
      await this.#read(value),
    ])
    // fromEntries, because it sets a channel named __proto__ like any other.
    return Object.fromEntries(await Promise.all(entries))
  }

  async #writes(thread: string, namespace: string, id: string): Promise<CheckpointPendingWrite[]> {
    const rows = await selectWrites(this.#db, thread, namespace, id)
    const writes = rows.map(
      async ({ task_id, channel, value }): Promise<CheckpointPendingWrite> => [
        task_id,
        channel,
        await this.#read(value),
      ],
    )
    return await Promise.all(writes)
  }

  #read(text: string): Promise<unknown> {
    return fromText(text, this.serde)
  }
}

/** Several changes: rows together, in few statements, deletions in their order. */
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

/** Before version 4 a checkpoint's sends lay with its parent's writes. */
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
 * The id of a thread, or a fault that says what is wrong with it. LangGraph writes checkpoints in the
 * background, where a fault ends the process: whoever starts a graph asks this first.
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
