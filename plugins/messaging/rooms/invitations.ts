import type { Log } from '#core'
import { isOnList, type MessagingEnv, serverOf } from '../environment.ts'
import { path } from '../server/api.ts'
import { ServerFault } from '../server/fault.ts'
import type { Line, Sync } from '../server/line.ts'
import type { MessagingDatabase } from '../tables.ts'

/** What invitations are answered with. */
export interface InvitationOptions {
  readonly line: Line
  readonly db: MessagingDatabase
  readonly env: MessagingEnv
  readonly log: Log
}

/** How many invitations of one sync are answered; those left over are answered with later ones. */
const mostAtOnce = 100

/** Answers invitations: by MESSAGING_ALLOW, and while there is room. */
export class Invitations {
  readonly #options: InvitationOptions
  readonly #left = new Map<string, string>()
  refused = 0

  constructor(options: InvitationOptions) {
    this.#options = options
  }

  /** Takes the invitations of a sync in. */
  hear(sync: Sync): void {
    const { userId } = this.#options.line
    for (const [roomId, room] of Object.entries<Sync>(sync.rooms?.invite ?? {})) {
      const events: unknown = room.invite_state?.events
      const own = (Array.isArray(events) ? events : []).find(
        (event) => event?.type === 'm.room.member' && event?.state_key === userId,
      )
      this.#left.set(roomId, String(own?.sender ?? ''))
    }
  }

  /** Joins the rooms whose invitations are taken, and declines the others without a word. */
  async answer(): Promise<void> {
    const { line, log } = this.#options
    for (const [roomId, by] of [...this.#left].slice(0, mostAtOnce)) {
      const isTaken = await this.#isTaken(by)
      if (!isTaken) this.refused++
      try {
        if (isTaken) await line.api.post(path`/join/${roomId}`, {})
        else await line.api.post(path`/rooms/${roomId}/leave`, {})
      } catch (thrown) {
        if (!(thrown instanceof ServerFault)) throw thrown
        log.info({ cause: thrown.message }, 'An invitation was not answered')
        if (thrown.kind !== 'refused') return // the server is away or busy: the next sync tries again
      }
      this.#left.delete(roomId)
    }
  }

  async #isTaken(by: string): Promise<boolean> {
    const { env, db } = this.#options
    const allowed = env.MESSAGING_ALLOW ?? [`*:${serverOf(env.MATRIX_ORACLE_ADMIN_USER_ID)}`]
    if (!isOnList(by, allowed)) return false
    const { count } = await db
      .selectFrom('messaging_rooms')
      .select((of) => of.fn.countAll().as('count'))
      .executeTakeFirstOrThrow()
    return Number(count) < env.MESSAGING_MAX_ROOMS
  }
}
