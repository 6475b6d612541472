import type { Log } from '#core'
import { isOnList, type MessagingEnv, serverOf } from '../environment.ts'
import { path } from '../server/api.ts'
import { ServerFault } from '../server/fault.ts'
import { type Line, roomsOf, type Sync } from '../server/line.ts'

/** What invitations are answered with. */
export interface InvitationOptions {
  readonly line: Line
  readonly env: MessagingEnv
  readonly log: Log
}

/** How many invitations of one sync are answered; those left over are answered with later ones. */
const mostAtOnce = 100

/** Answers invitations: by MESSAGING_ALLOW, and while there is room. */
export class Invitations {
  readonly #options: InvitationOptions
  readonly #left = new Map<string, string>()
  /** How many rooms the account is in: also those in which nobody has said anything yet. */
  #rooms: number | undefined
  refused = 0

  constructor(options: InvitationOptions) {
    this.#options = options
  }

  /** Takes the invitations of a sync in. */
  hear(sync: Sync): void {
    const { userId } = this.#options.line
    for (const [roomId, room] of roomsOf(sync.rooms?.invite)) {
      const events: unknown = room.invite_state?.events
      const own = (Array.isArray(events) ? events : []).find(
        (event) => event?.type === 'm.room.member' && event?.state_key === userId,
      )
      this.#left.set(roomId, String(own?.sender ?? ''))
    }
  }

  /** Joins the rooms whose invitations are taken, and declines the others without a word. */
  async answer(): Promise<void> {
    const { line, log, env } = this.#options
    if (this.#left.size === 0) return
    if (this.#rooms === undefined || this.#rooms >= env.MESSAGING_MAX_ROOMS) {
      // Rooms may have been left since: the server is asked, which knows.
      const { joined_rooms: joined } = await line.api.get(path`/joined_rooms`)
      this.#rooms = Array.isArray(joined) ? joined.length : 0
    }
    for (const [roomId, by] of [...this.#left].slice(0, mostAtOnce)) {
      const isTaken = this.#isTaken(by)
      if (!isTaken) this.refused++
      try {
        if (isTaken) {
          await line.api.post(path`/join/${roomId}`, {})
          this.#rooms = (this.#rooms ?? 0) + 1
        } else await line.api.post(path`/rooms/${roomId}/leave`, {})
      } catch (thrown) {
        if (!(thrown instanceof ServerFault)) throw thrown
        log.info({ cause: thrown.message }, 'An invitation was not answered')
        if (thrown.kind !== 'refused') return // the server is away or busy: the next sync tries again
      }
      this.#left.delete(roomId)
    }
  }

  #isTaken(by: string): boolean {
    const { env } = this.#options
    const allowed = env.MESSAGING_ALLOW ?? [`*:${serverOf(env.MATRIX_ORACLE_ADMIN_USER_ID)}`]
    if (!isOnList(by, allowed)) return false
    return (this.#rooms ?? 0) < env.MESSAGING_MAX_ROOMS
  }
}
