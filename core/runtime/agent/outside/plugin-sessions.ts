import { metaOf } from '../../../manifest/env.ts'
import type { PluginSessions } from '../../../plugin.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import { type RoomState, roomKeys } from '../../store/room-state.ts'
import type { Store } from '../../store/store.ts'
import type { Runs } from '../../turns/carry/runs.ts'
import { withRunTables } from '../../turns/journal/tables.ts'
import { readWhich } from '../../turns/new-turn.ts'
import { readMessages } from '../../turns/wire/read-messages.ts'
import { Transcripts } from '../../turns/wire/transcript.ts'

/** What the sessions of plugins are read from. */
export interface PluginSessionsParts {
  readonly runs: Runs
  readonly store: Store
  readonly rooms: RoomState
  readonly records: readonly PluginRecord[]
}

/** The sessions of users as plugins reach them. */
export class SessionsForPlugins {
  readonly #parts: PluginSessionsParts
  readonly #transcripts: Transcripts
  /** Of each plugin that shows some of its state to clients, the keys. */
  readonly #shared: ReadonlyMap<PluginRecord, readonly string[]>

  constructor(parts: PluginSessionsParts) {
    this.#parts = parts
    this.#transcripts = new Transcripts(withRunTables(parts.store.db))
    const shared = parts.records.map((record) => [record, sharedKeys(record)] as const)
    this.#shared = new Map(shared.filter(([, keys]) => keys.length > 0))
  }

  /** `sessions` of one plugin. */
  of(plugin: string): PluginSessions {
    const { runs } = this.#parts
    const from = { sessions: runs.sessions, transcripts: this.#transcripts }
    return {
      ...runs.sessionsOf(plugin),
      messages: (read) => readMessages(plugin, from, read),
      delete: async (session) => {
        const { user, session: id } = readWhich(plugin, session)
        await runs.deleteSession(user.did, id)
      },
      shared: async (session) => {
        const { user, session: id } = readWhich(plugin, session)
        await runs.sessions.demand(user.did, id)
        if (this.#shared.size === 0) return {}
        return this.#sharedIn((await runs.sessions.roomOf(id)) ?? this.#parts.rooms.of(user.did))
      },
    }
  }

  async #sharedIn(room: string): Promise<Record<string, Record<string, unknown>>> {
    const shown = [...this.#shared].map(async ([record, keys]) => {
      const values = await this.#parts.rooms.load(room, record)
      return [record.name, Object.fromEntries(keys.map((key) => [key, values[key]]))] as const
    })
    return Object.fromEntries(await Promise.all(shown))
  }
}

function sharedKeys(record: PluginRecord): string[] {
  const state = record.definition.state ?? {}
  return roomKeys(record).filter((key) => {
    const schema = state[key]
    return schema !== undefined && metaOf(schema).share === true
  })
}
