import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { Runnable, type RunnableConfig } from '@langchain/core/runnables'
import { Command, interrupt } from '@langchain/langgraph'
import {
  BinaryOperatorAggregate,
  EphemeralValue,
  LastValue,
  type BaseChannel,
} from '@langchain/langgraph/channels'
import type {
  Checkpoint,
  CheckpointMetadata,
  CheckpointTuple,
  ChannelVersions,
  PendingWrite,
} from '@langchain/langgraph-checkpoint'
import { Channel, Pregel } from '@langchain/langgraph/pregel'
import type { Database } from '../../../plugin.ts'
import {
  Checkpointer,
  type Item,
  rowsToInsert,
  type StoredCheckpoint,
  writeAll,
} from './checkpointer.ts'
import { NewestCheckpoints } from './newest-checkpoints.ts'
import type { Decision, RunEnd, WaitingCall } from '../../turns/run.ts'
import type { StateKey, StateValues } from './state.ts'

/** A person's answer to the call that waited. */
export interface Decided {
  readonly waits: WaitingCall
  readonly decision: Decision
}

/** What a session keeps between its turns. */
export interface Kept {
  readonly loadedPlugins?: readonly string[]
  /** The thread-scoped state of the plugins, by channel. */
  readonly states: StateValues
}

/** What one passage through the graph needs. */
export interface Passage {
  readonly thread: string
  /** The checkpoint from which the passage goes on; without one, the thread's newest. */
  readonly checkpoint?: string
  /** Set when the thread is new. The graph then does not look for a checkpoint. */
  readonly begins?: boolean
  /** A person's decision about the call for which the thread waits. */
  readonly resume?: Decision
  /**
   * The work of the passage. The graph keeps what the work returns. When the work returns nothing, the graph writes nothing:
   * the thread did not change, or another process carries the run now. The work does not throw.
   */
  work(kept: Kept, decided: Decided | undefined): Promise<Update | undefined>
}

/** What a passage changed. The graph adds the loaded plugins to those that the thread had loaded before. */
export type Update = Kept & { readonly waits?: WaitingCall }

/** The graph through which every turn passes, and what the graph keeps of a thread. */
export interface Graph {
  /** Resolves to the new checkpoint, if the passage made one, and what writes the checkpoint. */
  pass(passage: Passage): Promise<Pick<RunEnd, 'checkpoint' | 'save' | 'inserts'>>
  /** What a thread kept at a checkpoint; without one, at its newest. */
  read(thread: string, checkpoint: string | undefined): Promise<Kept>
  /** Removes all that the graph keeps of a thread. */
  forget(thread: string): Promise<void>
}

/**
 * Makes the graph of every turn. The node `agent` runs the loop of model and tools, the node `approval` asks a person. Beside
 * the checkpointer, only this file uses LangGraph, and only this file uses names that LangGraph's documentation does not
 * give (`__pregel_send`, `_streamIterator`).
 */
export function createGraph(db: Database, keys: readonly StateKey[]): Graph {
  const saver = new PassageSaver(db)
  const channels = keys.filter(({ scope }) => scope === 'thread').map(({ channel }) => channel)
  const pregel = new Pregel({
    nodes: {
      agent: Channel.subscribeTo([start])
        .join([loadedPlugins, ...channels])
        .pipe(new Node('agent', doWork)),
      approval: Channel.subscribeTo([waiting]).pipe(new Node('approval', askPerson)),
    },
    channels: {
      [start]: new EphemeralValue(),
      [waiting]: new EphemeralValue(),
      [loadedPlugins]: new BinaryOperatorAggregate<string[]>(union, () => []),
      ...Object.fromEntries(channels.map((name): [string, BaseChannel] => [name, new LastValue()])),
    },
    inputChannels: [start],
    outputChannels: [loadedPlugins],
    streamMode: 'values',
    checkpointer: saver,
  })

  return {
    async pass(passage) {
      const underway: Underway = { passage, changes: [], nothingNew: false, before: [] }
      const input = passage.resume ? new Command({ resume: passage.resume }) : { [start]: {} }
      const steps = pregel._streamIterator(input, {
        durability: 'exit',
        streamMode: [],
        outputKeys: [],
        configurable: { thread_id: passage.thread, [underwayKey]: underway },
      })
      // `invoke` would send the same steps through two web streams that nobody reads.
      for await (const _ of steps);
      const { checkpoint, changes } = underway
      if (checkpoint === undefined) return {}
      const inserts = rowsToInsert(changes)
      return { checkpoint, save: (db) => writeAll(db, changes), ...(inserts && { inserts }) }
    },
    async read(thread, checkpoint) {
      const tuple = await saver.getTuple({
        configurable: { thread_id: thread, ...(checkpoint && { checkpoint_id: checkpoint }) },
      })
      return keptOf(tuple?.checkpoint.channel_values ?? {})
    },
    forget: (thread) => saver.deleteThread(thread),
  }
}

const start = 'start'
const waiting = 'waiting'
const loadedPlugins = 'loadedPlugins'

const union = (a: readonly string[], b: readonly string[]) => [...new Set([...a, ...b])]

const underwayKey = 'oracle_passage'

/** A passage on its way through the graph. */
interface Underway {
  readonly passage: Passage
  /** The changes that LangGraph asked the checkpointer to write. */
  readonly changes: Item[]
  /** The work returned nothing, so the passage leaves no checkpoint. */
  nothingNew: boolean
  checkpoint?: string
  /** The values of the checkpoint from which the passage goes on. */
  before: StoredCheckpoint['values']
  /** A task wrote something on top of a checkpoint: what is kept of the thread is read from the database. */
  hasWrites?: boolean
}

type Values = Record<string, unknown>
type Writes = readonly (readonly [channel: string, value: unknown])[]

async function doWork(input: Values, config: RunnableConfig): Promise<Writes> {
  const underway = underwayOf(config)!
  const { decided } = input[start] as { decided?: Decided }
  const result = await underway.passage.work(keptOf(input), decided)
  if (!result) {
    underway.nothingNew = true
    return []
  }
  return [
    ...(result.loadedPlugins ? [[loadedPlugins, result.loadedPlugins] as const] : []),
    ...Object.entries(result.states),
    ...(result.waits ? [[waiting, result.waits] as const] : []),
  ]
}

/** Stops the graph until a person decides: `interrupt` throws, and returns the decision when a later passage resumes it. */
async function askPerson(input: Values, config: RunnableConfig): Promise<Writes> {
  const waits = input[waiting] as WaitingCall
  const decision = await AsyncLocalStorageProviderSingleton.runWithConfig(
    config,
    async () => interrupt(waits) as Decision,
  )
  return [[start, { decided: { waits, decision } satisfies Decided }]]
}

/** A node without tracing. LangGraph's own nodes build a tree of runs for every call, even when tracing is off. */
class Node extends Runnable<Values, void> {
  override lc_namespace = ['oracle_runtime']
  override name: string
  readonly #run: (input: Values, config: RunnableConfig) => Promise<Writes>

  constructor(name: string, run: (input: Values, config: RunnableConfig) => Promise<Writes>) {
    super()
    this.name = name
    this.#run = run
  }

  async invoke(input: Values, config: RunnableConfig): Promise<void> {
    const writes = await this.#run(input, config)
    config.configurable!.__pregel_send(writes)
  }
}

function keptOf({ [loadedPlugins]: loaded, [start]: _, [waiting]: __, ...states }: Values): Kept {
  return { loadedPlugins: (loaded as string[] | undefined) ?? [], states }
}

const underwayOf = (config: RunnableConfig): Underway | undefined =>
  config.configurable?.[underwayKey]

/**
 * A checkpointer that knows of passages. It gives LangGraph the checkpoint that the passage names: LangGraph itself would
 * take the one with the latest time in its id, and the clock of another server may be ahead. It gathers the changes of a
 * passage, so that the store writes them together with the end of the run.
 */
class PassageSaver extends Checkpointer {
  readonly #newest = new NewestCheckpoints()

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const underway = underwayOf(config)
    if (!underway) return await super.getTuple(config)
    const { passage } = underway
    if (passage.begins) return undefined
    const { thread, checkpoint: id = '' } = passage
    const stored = await this.stored(thread, '', id)
    underway.before = stored?.values ?? []
    return stored && (await this.tuple(stored))
  }

  protected override async stored(thread: string, namespace: string, id: string) {
    const known = namespace === '' && id !== '' ? this.#newest.get(thread, id) : undefined
    return known ?? (await super.stored(thread, namespace, id))
  }

  override async deleteThread(threadId: string): Promise<void> {
    this.#newest.forget(threadId)
    await super.deleteThread(threadId)
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const underway = underwayOf(config)
    if (underway?.nothingNew) return config
    const saved = await super.put(config, checkpoint, metadata, newVersions)
    if (!underway) return saved
    underway.checkpoint = checkpoint.id
    const made = underway.changes.at(-1)
    const kept = this.#newest.keep(made, checkpoint.channel_versions, underway.before)
    underway.before = kept?.values ?? []
    if (underway.hasWrites) this.#newest.forget(underway.passage.thread)
    return saved
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
  ): Promise<void> {
    const underway = underwayOf(config)
    if (underway?.nothingNew) return
    if (underway) {
      underway.hasWrites = true
      this.#newest.forget(underway.passage.thread)
    }
    await super.putWrites(config, writes, taskId)
  }

  protected override async write(item: Item, config: RunnableConfig = {}): Promise<void> {
    const underway = underwayOf(config)
    if (underway) underway.changes.push(item)
    else await super.write(item)
  }
}
