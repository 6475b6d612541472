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
  /** Its channel in the graph, and its name wherever all plugins' keys lie together. */
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

/** The thread's values, by channel. */
export type StateValues = Readonly<Record<string, unknown>>

/** The room's values, by plugin and key, as `loadRoom` gives them. */
export type RoomValues = ReadonlyMap<string, Readonly<Record<string, unknown>>>

/** What all plugins keep in a room. */
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

/** What a handler changed of one key, as data. */
export interface StateChange {
  readonly key: StateKey
  readonly before: unknown
  readonly after: unknown
}

/** Writes what changed back to the room, and nothing else: two sessions there must not undo each other. */
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

/** The state of all plugins in one turn, and what of it has changed. */
export class TurnState {
  /** Each plugin's state by its name: plain objects that handlers assign to. */
  readonly byPlugin = new Map<string, Record<string, unknown>>()
  readonly #keys: readonly StateKey[]
  readonly #log: Log
  /** Each value as it was written down last. */
  readonly #written = new Map<StateKey, string | undefined>()

  /** Values that fit no more, after an update of a plugin for example, give way to the default. */
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

  /** Takes over what a journal's step changed. */
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
   * What handlers changed since this was last asked. A value that does not fit its schema, or is no data, is
   * put back to what it was: a broken tool must not break the session.
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
      const fault = json === unwritable ? 'it is no data' : faultOf(key, after)
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

  /** The thread's values as the checkpoint keeps them: `null` where there is none. */
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
    // `null` is how "none" is stored, and a value where the schema has it as one.
    const nothing = stored === null && !z.safeParse(key.schema, null).success
    const parsed = z.safeParse(key.schema, nothing ? undefined : stored)
    if (parsed.success) return parsed.data
    this.#log.warn(
      { plugin: key.record.name, key: key.key },
      `What is stored of "${key.channel}" no longer fits its schema; its default is used`,
    )
    // A key without a default does not pass the boot's checks, so this finds one.
    return z.safeParse(key.schema, undefined).data
  }
}

/** No JSON begins like this. */
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
