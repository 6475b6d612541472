import type { Log } from '../../plugin.ts'
import { isActive, isOpen, type PluginRecord } from '../base/plugin-record.ts'
import { askedOutside } from './asked.ts'

/** How long a plugin may take to name a room: whoever lists sessions waits for it. */
const nameMs = 1_000
const longestRoomId = 255

/** Asks plugins for the room ids that clients are told of sessions without a room of their own. */
export class RoomIds {
  readonly #records: readonly PluginRecord[]
  readonly #log: Log

  constructor(records: readonly PluginRecord[], log: Log) {
    this.#records = records.filter(({ definition }) => definition.roomIdOf !== undefined)
    this.#log = log
  }

  /** The room id of a user's sessions: that of the first plugin which has one. A plugin that is late or fails has none. */
  async of(did: string): Promise<string | undefined> {
    for (const record of this.#records) {
      if (!isActive(record) || !isOpen(record)) continue
      try {
        const roomId: unknown = await askedOutside(record, nameMs, (ctx) =>
          record.definition.roomIdOf?.({ did }, ctx),
        )
        if (typeof roomId === 'string' && roomId !== '' && roomId.length <= longestRoomId)
          return roomId
      } catch (err) {
        this.#log.warn({ err, plugin: record.name }, '"roomIdOf" of a plugin failed')
      }
    }
    return undefined
  }
}
