import type { HeldLease, Log, Oracle, RoomChange, Turns } from '#core'
import { Asks } from '../answering/asks.ts'
import { Conversations } from '../answering/conversations.ts'
import { Inbox, type Incoming } from '../answering/inbox.ts'
import { Marks } from '../answering/marks.ts'
import { requestIdOf } from '../answering/message.ts'
import { Sent } from '../answering/sent.ts'
import { messageOf } from '../answering/words.ts'
import type { ServerEvent } from '../device/device.ts'
import type { Seal } from '../device/sealing.ts'
import type { MessagingEnv } from '../environment.ts'
import type { People } from '../people/people.ts'
import { path } from '../server/api.ts'
import { ServerFault } from '../server/fault.ts'
import { type Line, roomsOf, type Sync } from '../server/line.ts'
import type { Held, MessagingDatabase } from '../tables.ts'
import { Invitations } from './invitations.ts'
import { sendNotices } from './notices.ts'
import { RoomSessions } from './room-sessions.ts'
import { readEvent, Rooms } from './rooms.ts'

/** What the desk is made of. */
export interface DeskOptions {
  readonly line: Line
  readonly lease: HeldLease
  readonly held: Held
  readonly env: MessagingEnv
  readonly db: MessagingDatabase
  readonly seal: Seal
  readonly log: Log
  readonly turns: Turns
  readonly rooms: { changed(change: RoomChange): Promise<void> }
  readonly oracle: Oracle
  readonly people: People
  now(): Date
}

/** The past of a room that is read after an absence: so many events, so many at once. */
const past = { most: 200, page: 100 }
/** How long a message whose key is missing is tried again, and how many are at once. */
const unreadable = { forMs: 5 * 60_000, most: 200 }
const minuteMs = 60_000
/** Up to how many unread messages are counted where an operator looks at the server's health. */
const mostUnread = 1_000

/** The rooms and people of the account, in the one process that holds it. */
export class Desk {
  readonly rooms: Rooms
  readonly line: Line
  readonly #options: DeskOptions
  readonly #invitations: Invitations
  readonly #inbox: Inbox
  readonly #sessions: RoomSessions
  /** What a sync brought, in the database and not yet begun. */
  #arrived: Incoming[] = []
  /** Rooms that had been left unanswered because the account had read nothing before. */
  readonly #isFirstEver: boolean
  #hasTaken = false
  #after: Promise<void> = Promise.resolve()

  constructor(options: DeskOptions) {
    this.#options = options
    const { line, db, env, log, turns, oracle, lease, seal, people } = options
    this.#isFirstEver = !line.hasRead
    this.rooms = new Rooms(line, db, log, lease.signal)
    this.line = line
    this.#invitations = new Invitations({ line, env, log })
    const asks = new Asks(db)
    const sent = new Sent(db)
    const marks = new Marks({ db, lease })
    const { rooms } = this
    const { signal } = lease
    this.#sessions = new RoomSessions(db)
    const conversations = new Conversations({
      rooms,
      sessions: this.#sessions,
      turns,
      asks,
      sent,
      marks,
      people,
      db,
      log,
      oracle,
      signal,
      editMs: env.MESSAGING_EDIT_MS,
      mostEdits: env.MESSAGING_MAX_EDITS,
    })
    const parts = {
      rooms,
      people,
      asks,
      sent,
      marks,
      conversations,
      turns,
      db,
      env,
      oracle,
      log,
      signal,
      seal,
    }
    this.#inbox = new Inbox({ ...parts, userId: line.userId })
  }

  get deviceId(): string {
    return this.#options.line.device.id
  }

  get refusedInvitations(): number {
    return this.#invitations.refused
  }

  /** Puts what a sync brought into the database. Nothing of it is begun before `go`. */
  async take(sync: Sync): Promise<void> {
    this.#invitations.hear(sync)
    const isFirst = this.#isFirstEver && !this.#hasTaken
    this.#hasTaken = true
    const found: Found[] = []
    for (const [roomId, room] of roomsOf(sync.rooms?.join)) {
      const state = eventsOf(room.state?.events)
      const timeline = eventsOf(room.timeline?.events)
      await this.#changed(roomId, [...state, ...timeline], isFirst).catch((thrown: unknown) => {
        // A room that refuses the oracle must not keep it from all others.
        if (!(thrown instanceof ServerFault) || thrown.kind !== 'refused') throw thrown
        this.#options.log.info({ cause: thrown.message }, 'A room did not show its changes')
      })
      if (isFirst) continue // said before the oracle had ever read here
      const isCut = room.timeline?.limited === true && typeof room.timeline.prev_batch === 'string'
      const before = isCut ? await this.#past(roomId, room.timeline.prev_batch) : []
      for (const event of [...before, ...timeline]) found.push({ roomId, event })
    }
    await this.#keep(found)
    for (const [roomId] of roomsOf(sync.rooms?.leave)) {
      await this.#inbox.left(roomId)
      await this.#sessions.parted(roomId, this.#options.now().getTime())
    }
  }

  /** Begins what the last sync brought. */
  go(): void {
    for (const incoming of this.#arrived.splice(0)) this.#inbox.take(incoming)
    this.look()
  }

  /** Takes up what an earlier process left open. It begins with the first sync, which brings keys that are still missing. */
  async takeUp(): Promise<void> {
    const { db } = this.#options
    const rows = await db
      .selectFrom('messaging_events')
      .select(['event_id', 'room_id', 'request_id', 'state', 'at'])
      .where('state', 'in', ['received', 'running'])
      .orderBy('at')
      .execute()
    this.#arrived.push(...rows.map((row) => ({ row })))
  }

  async close(): Promise<void> {
    await this.#after
    await this.#inbox.close()
  }

  /** How many messages wait, and how many could not be read. */
  async counts(): Promise<{ rooms: number; queue: number; undecryptable: number }> {
    const { db } = this.#options
    const rows = await db
      .selectFrom('messaging_events')
      .select(['state', (of) => of.fn.countAll().as('count')])
      .groupBy('state')
      .execute()
    const count = (...states: string[]) =>
      rows.reduce((sum, row) => sum + (states.includes(row.state) ? Number(row.count) : 0), 0)
    const { count: rooms } = await db
      .selectFrom('messaging_rooms')
      .select((of) => of.fn.countAll().as('count'))
      .executeTakeFirstOrThrow()
    return {
      rooms: Number(rooms),
      queue: count('received', 'running'),
      undecryptable: count('unreadable', 'lost'),
    }
  }

  /** How many messages could not be read, at most a thousand of them. */
  async unread(): Promise<number> {
    const rows = await this.#options.db
      .selectFrom('messaging_events')
      .select('event_id')
      .where('state', 'in', ['unreadable', 'lost'])
      .limit(mostUnread)
      .execute()
    return rows.length
  }

  async #later(): Promise<void> {
    if (this.#options.lease.signal.aborted) return
    await this.#invitations.answer()
    await this.#retry()
    await sendNotices({ ...this.#options, rooms: this.rooms }, Date.now())
  }

  /** Sends what waits beside the answers, one look after the other. */
  look(): void {
    const { log, lease } = this.#options
    this.#after = this.#after
      .then(() => this.#later())
      .catch((err: unknown) => {
        if (!lease.signal.aborted) log.warn({ err }, 'What waits beside the answers was not done')
      })
  }

  /** Keeps the messages among what was found, each once. */
  async #keep(found: readonly Found[]): Promise<void> {
    const { held, line, env } = this.#options
    const oldest = Date.now() - env.MESSAGING_MAX_AGE_MINUTES * minuteMs
    const wanted = found.filter(
      ({ event }) =>
        event.state_key === undefined &&
        event.sender !== line.userId &&
        kinds.has(event.type) &&
        event.origin_server_ts >= oldest,
    )
    if (wanted.length === 0) return
    await held(async (trx) => {
      for (const [n, { roomId, event }] of wanted.entries()) {
        const row = {
          event_id: event.event_id,
          room_id: roomId,
          sender: event.sender,
          did: null,
          thread: null,
          session_id: null,
          request_id: requestIdOf(event.event_id),
          state: 'received',
          sends: 0,
          answer_id: null,
          at: Date.now() + n / wanted.length,
        } as const
        const whole = { ...row, at: Math.floor(row.at) }
        const isNew = await trx
          .insertInto('messaging_events')
          .values(whole)
          .onConflict((on) => on.column('event_id').doNothing())
          .returning('event_id')
          .executeTakeFirst()
        if (isNew) this.#arrived.push({ row: whole, event })
      }
    })
  }

  /** What was said in a room before the part that the sync brought, the oldest first. */
  async #past(roomId: string, from: string): Promise<ServerEvent[]> {
    const { line, env, log } = this.#options
    const oldest = Date.now() - env.MESSAGING_MAX_AGE_MINUTES * minuteMs
    const found: ServerEvent[] = []
    let next: string | undefined = from
    while (next !== undefined && found.length < past.most) {
      const query = { dir: 'b', from: next, to: line.since, limit: String(past.page) }
      try {
        const page: Sync = await line.api.get(path`/rooms/${roomId}/messages`, { query })
        const events = eventsOf(page.chunk)
        found.push(...events)
        const last = events.at(-1)
        if (!last || last.origin_server_ts < oldest) break
        next = typeof page.end === 'string' ? page.end : undefined
      } catch (thrown) {
        if (!(thrown instanceof ServerFault) || thrown.kind !== 'refused') throw thrown
        log.info({ cause: thrown.message }, 'The past of a room was not shown')
        break
      }
    }
    return found.slice(0, past.most).reverse()
  }

  /** Takes changes of a room in: who is there, and whether others read along now. */
  async #changed(roomId: string, events: readonly ServerEvent[], isFirst: boolean): Promise<void> {
    await this.rooms.apply(roomId, events)
    const moves = events.filter(({ type }) => type === 'm.room.member')
    if (isFirst || moves.length === 0) return
    const { db, line } = this.#options
    const row = await db
      .selectFrom('messaging_rooms')
      .selectAll()
      .where('room_id', '=', roomId)
      .executeTakeFirst()
    if (!row && !(await this.#sessions.areIn(roomId))) return
    const others = await this.rooms.others(roomId)
    if (others.length === 0) await this.#sessions.parted(roomId, this.#options.now().getTime())
    else await this.#sessions.rejoined(roomId)
    if (!row) return
    await this.#tell(roomId, row.did, moves)
    const isWider =
      row.kind === 'direct' &&
      row.did === null &&
      (others.length > 1 ||
        (row.account !== null && !others.includes(row.account) && others.length > 0))
    if (!isWider) return
    const generation = Number(row.generation) + 1
    await db
      .updateTable('messaging_rooms')
      .set({ kind: 'group', account: null, generation })
      .where('room_id', '=', roomId)
      .execute()
    const text =
      'Others read along here now. What was said between us two stays out of it; mention me to ask me something.'
    const [first] = moves
    const txn = requestIdOf(`${roomId} ${first?.event_id ?? line.userId}`)
    await this.rooms.send(roomId, 'm.room.message', await messageOf(text), txn)
  }

  /** Tells other plugins who came to the room of a person and the oracle, and who left it. */
  async #tell(roomId: string, did: string | null, moves: readonly ServerEvent[]): Promise<void> {
    const { rooms, log } = this.#options
    if (did === null) return
    for (const { content, state_key: account = '', sender: by } of moves) {
      const change = changes[String(content.membership)]
      if (change === undefined) continue
      await rooms.changed({ did, roomId, account, change, by }).catch((err: unknown) => {
        log.warn({ err }, 'A change of a room was not told to every plugin')
      })
    }
  }

  /** Tries messages again whose key was missing. After five minutes the room is told of them, once. */
  async #retry(): Promise<void> {
    const { db } = this.#options
    const rows = await db
      .selectFrom('messaging_events')
      .select(['event_id', 'room_id', 'request_id', 'state', 'at'])
      .where('state', '=', 'unreadable')
      .orderBy('at')
      .limit(unreadable.most)
      .execute()
    const lost = rows.filter(({ at }) => Date.now() - Number(at) > unreadable.forMs)
    for (const row of rows) if (!lost.includes(row)) this.#inbox.take({ row })
    for (const roomId of new Set(lost.map(({ room_id }) => room_id))) {
      const ids = lost.filter(({ room_id }) => room_id === roomId).map(({ event_id }) => event_id)
      await db
        .updateTable('messaging_events')
        .set({ state: 'lost' })
        .where('event_id', 'in', ids)
        .execute()
      const what = ids.length === 1 ? 'a message that' : `${ids.length} messages that`
      const text = `I could not read ${what} came while I was away. Please send ${ids.length === 1 ? 'it' : 'them'} again.`
      const txn = requestIdOf(`lost ${ids.join(' ')}`)
      await this.rooms.send(roomId, 'm.room.message', await messageOf(text), txn)
    }
  }
}

interface Found {
  readonly roomId: string
  readonly event: ServerEvent
}

const kinds = new Set(['m.room.encrypted', 'm.room.message', 'm.reaction', 'm.room.redaction'])
const changes: Readonly<Record<string, 'invited' | 'joined' | 'left'>> = {
  invite: 'invited',
  join: 'joined',
  leave: 'left',
  ban: 'left',
}
/** How many events of one answer are looked at. */
const mostEvents = 1_000

const eventsOf = (given: unknown): ServerEvent[] =>
  (Array.isArray(given) ? given : [])
    .slice(0, mostEvents)
    .map(readEvent)
    .filter((event) => event !== undefined)
