import { RuntimeError } from '../../errors.ts'

/** Whom a turn or a request concerns, and the room of its session where the session has one. */
export interface RoomFacts {
  readonly did: string
  readonly oracleDid: string
  /** The room as the session keeps it: `<plugin>:<room>`. */
  readonly room?: string | null
}

const taken = /^[A-Za-z0-9!:._@#-]{1,200}$/

/**
 * What room-scoped state belongs to: the room of the session, else the pair of user and oracle. The space keeps a pair apart
 * from every room of a plugin, because neither a DID nor a room holds one.
 */
export const roomNameOf = ({ did, oracleDid, room }: RoomFacts): string =>
  room ?? `${did} ${oracleDid}`

/** A room by the name that a plugin gave it, as sessions keep it: no plugin can name the room of another. */
export function roomOfPlugin(plugin: string, room: unknown): string {
  if (typeof room === 'string' && taken.test(room)) return `${plugin}:${room}`
  throw new RuntimeError(
    'INPUT_INVALID',
    `${JSON.stringify(String(room).slice(0, 80))} is no name of a room.`,
    { hint: 'A name has 1 to 200 letters, digits and signs of !:._@#-' },
  )
}

/** The name that the plugin gave the room of a session. */
export const roomIdIn = (room: string): string => room.slice(room.indexOf(':') + 1)
