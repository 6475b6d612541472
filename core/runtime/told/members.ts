import { RuntimeError } from '../../errors.ts'
import type { Log, RoomChange, ToldRoomChange } from '../../plugin.ts'
import { isDid } from '../base/did-form.ts'
import { fieldsIn } from '../base/fields.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import { roomOfPlugin } from '../base/room-name.ts'
import { askedOutside } from './asked.ts'

/** How long one plugin may take over one change. */
const changeMs = 10_000
const longestId = 255

/** Tells plugins who was invited to rooms elsewhere, has joined them, or has left them. */
export class Members {
  readonly #records: readonly PluginRecord[]
  readonly #log: Log

  constructor(records: readonly PluginRecord[], log: Log) {
    this.#records = records.filter(({ definition }) => definition.members !== undefined)
    this.#log = log
  }

  /** Tells every plugin in load order. Throws the first fault when all of them were told. */
  async tell(plugin: string, given: RoomChange): Promise<void> {
    const change = Object.freeze({ ...checked(plugin, given), plugin })
    let first: { readonly thrown: unknown } | undefined
    for (const record of this.#records.filter(isActive)) {
      try {
        await askedOutside(record, changeMs, (ctx) => record.definition.members?.(change, ctx))
      } catch (thrown) {
        this.#log.warn({ err: thrown, plugin: record.name }, '"members" of a plugin failed')
        first ??= { thrown }
      }
    }
    if (first) throw first.thrown
  }
}

function checked(plugin: string, given: RoomChange): Omit<ToldRoomChange, 'plugin'> {
  const { did, room, roomId, account, change, by }: Partial<RoomChange> = fieldsIn(given)
  const isId = (id: unknown) =>
    typeof id === 'string' && id !== '' && id.length <= longestId && !/\p{Cc}/u.test(id)
  const wrong = Object.entries({ roomId, account, by }).find(([, id]) => !isId(id))?.[0]
  const fault = !isDid(did)
    ? 'did'
    : (wrong ??
      (change !== 'invited' && change !== 'joined' && change !== 'left' ? 'change' : undefined))
  if (fault !== undefined || !isDid(did) || !roomId || !account || !by || !change)
    throw new RuntimeError(
      'INPUT_INVALID',
      `${plugin} told of a change of a room whose "${fault}" is none.`,
      {
        hint: 'Tell { did, room?, roomId, account, change: "invited", "joined" or "left", by }.',
      },
    )
  if (room !== undefined) roomOfPlugin(plugin, room)
  return { did, ...(room !== undefined && { room }), roomId, account, change, by }
}
