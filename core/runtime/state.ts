import { z } from 'zod'
import { metaOf } from '../manifest/env.ts'
import type { Log, Schema } from '../plugin.ts'
import type { JournalEntry } from './run.ts'
import type { PluginRecord } from './plugin-record.ts'

/** One key of a plugin's state. */
export interface StateKey {
  readonly plugin: string
  readonly key: string
  readonly schema: Schema
  /** `thread` lives in the session's checkpoint; `room` outlives the session. */
  readonly scope: 'thread' | 'room'
  /** Its channel in the graph, and its name wherever all plugins' keys lie together. */
  readonly channel: string
}

/** Every state key of the plugins, in the order of boot. */
export function stateKeys(records: readonly PluginRecord[]): StateKey[] {
  return records.flatMap(({ name: plugin, definition }) =>
    Object.entries(definition.state ?? {}).map(([key, schema]): StateKey => {
      const scope = metaOf(schema).scope === 'room' ? 'room' : 'thread'
      return { plugin, key, schema, scope, channel: `${plugin}.${key}` }
    }),
  )
}

/** Values by channel. */
export type StateValues = Readonly<Record<string, unknown>>

/** The state of all plugins in one turn, and what of it has changed. */
export class TurnState {
  /** Each plugin's state by its name: plain objects that handlers assign to. */
  readonly byPlugin = new Map<string, Record<string, unknown>>()
  readonly #keys: readonly StateKey[]
  readonly #log: Log
  /** Each value as it was written down last. */
  readonly #written = new Map<StateKey, string | undefined>()

  /** Values that fit no more, after an update of a plugin for example, give way to the default. */
  constructor(keys: readonly StateKey[], stored: StateValues, log: Log) {
    this.#keys = keys
    this.#log = log
    for (const key of keys) {
      const value = this.#parsed(key, stored[key.channel])
      this.#of(key.plugin)[key.key] = value
      this.#written.set(key, asJson(value))
    }
  }

  /** Takes over what a journal's step changed. */
  replay(states: NonNullable<JournalEntry['states']>): void {
    for (const key of this.#keys) {
      const changed = states[key.plugin]
      if (key.scope !== 'thread' || !changed || !Object.hasOwn(changed, key.key)) continue
      const value = this.#parsed(key, changed[key.key])
      this.#of(key.plugin)[key.key] = value
      this.#written.set(key, asJson(value))
    }
  }

  /**
   * What handlers changed since this was last asked. A value that does not fit its schema, or is no data, is
   * put back to what it was: a broken tool must not break the session.
   */
  changes(): { readonly key: StateKey; readonly before: unknown; readonly after: unknown }[] {
    const changes = []
    for (const key of this.#keys) {
      const state = this.#of(key.plugin)
      const was = this.#written.get(key)
      const json = asJson(state[key.key])
      if (json === was) continue
      const before = was === undefined ? undefined : JSON.parse(was)
      const fault = json === unwritable ? 'it is no data' : faultOf(key, state[key.key])
      if (fault !== undefined) {
        this.#log.error(
          { plugin: key.plugin, key: key.key },
          `A value of "${key.channel}" was not kept: ${fault}`,
        )
        state[key.key] = before
        continue
      }
      this.#written.set(key, json)
      changes.push({ key, before, after: json === undefined ? undefined : JSON.parse(json) })
    }
    return changes
  }

  /** The thread's values as the checkpoint keeps them: `null` where there is none. */
  channels(): Record<string, unknown> {
    const values: Record<string, unknown> = {}
    for (const key of this.#keys) {
      if (key.scope !== 'thread') continue
      const written = this.#written.get(key)
      values[key.channel] = written === undefined ? null : JSON.parse(written)
    }
    return values
  }

  #of(plugin: string): Record<string, unknown> {
    let state = this.byPlugin.get(plugin)
    if (!state) this.byPlugin.set(plugin, (state = {}))
    return state
  }

  #parsed(key: StateKey, stored: unknown): unknown {
    // `null` is how "none" is stored, and a value where the schema has it as one.
    const nothing = stored === null && !z.safeParse(key.schema, null).success
    const parsed = z.safeParse(key.schema, nothing ? undefined : stored)
    if (parsed.success) return parsed.data
    this.#log.warn(
      { plugin: key.plugin, key: key.key },
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

function faultOf({ schema }: StateKey, value: unknown): string | undefined {
  const parsed = z.safeParse(schema, value)
  if (parsed.success) return undefined
  return parsed.error.issues
    .map(({ path, message }) => [path.map(String).join('.'), message].filter(Boolean).join(': '))
    .join('; ')
}
