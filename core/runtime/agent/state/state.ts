import type { Kept } from './graph.ts'
import { z } from 'zod'
import { metaOf } from '../../../manifest/env.ts'
import { faultsOf, faultText } from '../../../manifest/faults.ts'
import type { Log, Schema } from '../../../plugin.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import type { RoomState } from '../../store/room-state.ts'
import type { JournalEntry } from '../../turns/run.ts'

/** One key of a plugin's state. */
export interface StateKey {
  readonly record: PluginRecord
  readonly key: string
  readonly schema: Schema
  /** `thread` lives in the session's checkpoint; `room` outlives the session. */
  readonly scope: 'thread' | 'room'
  /** The name of the key among the keys of all plugins, and of its channel in the graph: `plugin.key`. */
  readonly channel: string
}

/** Every state key of the plugins, in the order of boot. */
export function stateKeys(records: readonly PluginRecord[]): StateKey[] {
  return records.flatMap((record) =>
    Object.entries(record.definition.state ?? {}).map(([key, schema]): StateKey => {
      const scope = metaOf(schema).scope === 'room' ? 'room' : 'thread'
      return { record, key, schema, scope, channel: `${record.name}.${key}` }
    }),
  )
}

/** The values of a thread, by channel. */
export type StateValues = Readonly<Record<string, unknown>>

/** The values of a room, by plugin and key, as `loadRoom` gives them. */
export type RoomValues = ReadonlyMap<string, Readonly<Record<string, unknown>>>

/** Loads what all plugins keep in a room. */
export async function loadRoom(
  rooms: RoomState,
  room: string,
  keys: readonly StateKey[],
): Promise<RoomValues> {
  const records = new Set(keys.filter(({ scope }) => scope === 'room').map(({ record }) => record))
  return new Map(
    await Promise.all(
      [...records].map(async (record) => [record.name, await rooms.load(room, record)] as const),
    ),
  )
}

/** How handlers changed the value of one key. Both values are plain data. */
export interface StateChange {
  readonly key: StateKey
  readonly before: unknown
  readonly after: unknown
}

/** Writes the changed values back to the room, and no others: two sessions in a room must not undo each other's changes. */
export async function saveRoom(
  rooms: RoomState,
  room: string,
  changes: readonly StateChange[],
): Promise<void> {
  const byRecord = new Map<PluginRecord, [Record<string, unknown>, Record<string, unknown>]>()
  for (const { key, before, after } of changes) {
    if (key.scope !== 'room') continue
    const values = byRecord.get(key.record) ?? [{}, {}]
    values[0][key.key] = before
    values[1][key.key] = after
    byRecord.set(key.record, values)
  }
  for (const [record, [before, after]] of byRecord) await rooms.save(room, record, before, after)
}

/** The state of all plugins in one turn, and which values have changed. */
export class TurnState {
  /** The state of each plugin by the plugin's name. The states are plain objects that handlers assign to. */
  readonly byPlugin = new Map<string, Record<string, unknown>>()
  readonly #keys: readonly StateKey[]
  readonly #log: Log
  /** The JSON of each value when a step last took the changes. */
  readonly #written = new Map<StateKey, string | undefined>()

  /** A stored value that no longer fits its schema, after an update of a plugin for example, is replaced by the default. */
  constructor(keys: readonly StateKey[], stored: StateValues, room: RoomValues, log: Log) {
    this.#keys = keys
    this.#log = log
    for (const key of keys) {
      const value =
        key.scope === 'room'
          ? room.get(key.record.name)?.[key.key]
          : this.#parsed(key, stored[key.channel])
      this.#of(key)[key.key] = value
      this.#written.set(key, asJson(value))
    }
  }

  /** Takes over the values that a step in the journal changed. */
  replay(states: NonNullable<JournalEntry['states']>): void {
    for (const key of this.#keys) {
      const changed = states[key.record.name]
      if (key.scope !== 'thread' || !changed || !Object.hasOwn(changed, key.key)) continue
      const value = this.#parsed(key, changed[key.key])
      this.#of(key)[key.key] = value
      this.#written.set(key, asJson(value))
    }
  }

  /**
   * What handlers changed since the last call of `changes`. A value that does not fit its schema, or that JSON cannot hold,
   * is set back to the value before: a broken tool must not break the session.
   */
  changes(): StateChange[] {
    const changes: StateChange[] = []
    for (const key of this.#keys) {
      const state = this.#of(key)
      const was = this.#written.get(key)
      const json = asJson(state[key.key])
      if (json === was) continue
      const before = valueOf(was)
      const after = json === unwritable ? undefined : valueOf(json)
      const fault = json === unwritable ? 'JSON cannot hold it' : faultOf(key, after)
      if (fault !== undefined) {
        this.#log.error(
          { plugin: key.record.name, key: key.key },
          `A value of "${key.channel}" was not kept: ${fault}`,
        )
        state[key.key] = before
        continue
      }
      this.#written.set(key, json)
      changes.push({ key, before, after })
    }
    return changes
  }

  /** The thread's values as the checkpoint keeps them: `null` for a key without a value. */
  channels(): Record<string, unknown> {
    const values: Record<string, unknown> = {}
    for (const key of this.#keys) {
      if (key.scope !== 'thread') continue
      values[key.channel] = valueOf(this.#written.get(key)) ?? null
    }
    return values
  }

  #of({ record: { name } }: StateKey): Record<string, unknown> {
    let state = this.byPlugin.get(name)
    if (!state) this.byPlugin.set(name, (state = {}))
    return state
  }

  #parsed(key: StateKey, stored: unknown): unknown {
    // A stored `null` means that the key has no value, unless the schema allows null as a value.
    const nothing = stored === null && !z.safeParse(key.schema, null).success
    const parsed = z.safeParse(key.schema, nothing ? undefined : stored)
    if (parsed.success) return parsed.data
    this.#log.warn(
      { plugin: key.record.name, key: key.key },
      `The stored value of "${key.channel}" no longer fits its schema; the default takes its place`,
    )
    // The boot refuses a key whose schema has neither a default nor `.optional()`, so undefined parses.
    return z.safeParse(key.schema, undefined).data
  }
}

/** Stands for a value that JSON cannot hold. No JSON begins with this character. */
const unwritable = '!'

function asJson(value: unknown): string | undefined {
  try {
    return value === undefined ? undefined : (JSON.stringify(value) ?? unwritable)
  } catch {
    return unwritable // a circle or a bigint
  }
}

const valueOf = (json: string | undefined): unknown =>
  json === undefined ? undefined : JSON.parse(json)

function faultOf({ schema }: StateKey, value: unknown): string | undefined {
  const parsed = z.safeParse(schema, value)
  if (parsed.success) return undefined
  return faultText(faultsOf(parsed.error))
}

/** The changed values of a thread by plugin and key, as the journal keeps them; undefined where none changed. */
export function byPlugin(changes: readonly StateChange[]): JournalEntry['states'] {
  const thread = changes.filter(({ key }) => key.scope === 'thread')
  if (thread.length === 0) return undefined
  const states: Record<string, Record<string, unknown>> = {}
  for (const { key, after } of thread) (states[key.record.name] ??= {})[key.key] = after ?? null
  return states
}

/** The channels whose values are others than before. */
export function changedSince(
  before: Kept['states'],
  after: Record<string, unknown>,
): Kept['states'] {
  return Object.fromEntries(
    Object.entries(after).filter(
      ([channel, value]) => JSON.stringify(value) !== JSON.stringify(before[channel] ?? null),
    ),
  )
}
