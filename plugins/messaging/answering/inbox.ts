import type { Log, Oracle, Turns } from '#core'
import type { ServerEvent } from '../device/device.ts'
import type { Seal } from '../device/sealing.ts'
import { isOnList, type MessagingEnv, serverOf } from '../environment.ts'
import type { People } from '../people/people.ts'
import { pause, type Rooms } from '../rooms/rooms.ts'
import { ServerFault } from '../server/fault.ts'
import type { EventsTable, EventState, MessagingDatabase, RoomsTable } from '../tables.ts'
import { annotationOf, type Asks, decisionIn, decisionOf } from './asks.ts'
import { commanded } from './commands.ts'
import type { Conversations } from './conversations.ts'
import { Joining, type Heard } from './joining.ts'
import {
  attachmentOf,
  type PersonMessage,
  readMessage,
  requestIdOf,
  sessionIdOf,
} from './message.ts'
import type { Marks } from './marks.ts'
import { Overheard } from './overheard.ts'
import { Counts, Rallies } from './pacing.ts'
import type { Sent } from './sent.ts'
import { type Replaced, TakingBack } from './taking-back.ts'
import type { Place } from './words.ts'

/** What messages are read with. */
export interface InboxOptions {
  readonly rooms: Rooms
  readonly people: People
  readonly asks: Asks
  readonly sent: Sent
  readonly marks: Marks
  readonly conversations: Conversations
  readonly turns: Turns
  readonly db: MessagingDatabase
  readonly env: MessagingEnv
  readonly oracle: Oracle
  readonly seal: Seal
  readonly log: Log
  readonly userId: string
  readonly signal: AbortSignal
}

/** A message on its way: its row, and the event where it has just come. */
export interface Incoming {
  readonly row: Pick<EventsTable, 'event_id' | 'room_id' | 'request_id' | 'state' | 'at'>
  readonly event?: ServerEvent | undefined
}

/** What the oracle has to do with a message: where it stands and in which session. */
interface Addressed {
  readonly message: PersonMessage
  readonly text: string
  readonly place: Place
  readonly threadKey: string
}

/** Reads what people write, one message of a room after the other, and says what becomes of it. */
export class Inbox {
  readonly #options: InboxOptions
  readonly #tails = new Map<string, Promise<void>>()
  /** Messages that are being read. */
  readonly #reading = new Set<string>()
  readonly #joining: Joining
  readonly #overheard = new Overheard()
  readonly #takingBack: TakingBack
  readonly #counts = new Counts()
  readonly #rallies = new Rallies()

  constructor(options: InboxOptions) {
    this.#options = options
    this.#joining = new Joining((heard) => this.#start(heard), options.signal)
    this.#takingBack = new TakingBack({ ...options, joining: this.#joining })
  }

  /** Takes a message in, unless it is under way here; those of one room are read in their order. */
  take(incoming: Incoming): void {
    const { row } = incoming
    if (this.#reading.has(row.event_id) || this.#joining.has(row.event_id)) return
    this.#reading.add(row.event_id)
    const tail = this.#tails.get(row.room_id) ?? Promise.resolve()
    const next = tail
      .then(() => this.#persist(row.event_id, () => this.#process(incoming)))
      .finally(() => {
        this.#reading.delete(row.event_id)
        if (this.#tails.get(row.room_id) === next) this.#tails.delete(row.room_id)
      })
    this.#tails.set(row.room_id, next)
  }

  /** Resolves once everything that was taken in has been read. */
  async close(): Promise<void> {
    this.#joining.close()
    await Promise.allSettled(this.#tails.values())
  }

  /** Ends what is under way in a room that the oracle has left. */
  async left(roomId: string): Promise<void> {
    const { db, turns } = this.#options
    const open = await db
      .updateTable('messaging_events')
      .set({ state: 'ignored' })
      .where('room_id', '=', roomId)
      .where('state', 'in', ['received', 'running', 'unreadable'])
      .returning(['did', 'session_id', 'request_id'])
      .execute()
    for (const { did, session_id: session, request_id: requestId } of open)
      if (did !== null && session !== null) await turns.abort({ user: { did }, session, requestId })
    await db.deleteFrom('messaging_asks').where('room_id', '=', roomId).execute()
    await db.deleteFrom('messaging_rooms').where('room_id', '=', roomId).execute()
  }

  async #process({ row, event: given }: Incoming): Promise<void> {
    const { rooms } = this.#options
    const { event_id: eventId, room_id: roomId } = row
    let event: ServerEvent | undefined
    try {
      event = given ? await rooms.open(roomId, given) : await rooms.event(roomId, eventId)
    } catch (thrown) {
      if (!(thrown instanceof ServerFault) || thrown.kind !== 'refused') throw thrown
      return this.#options.marks.put([eventId], 'ignored') // gone from the server
    }
    if (!event) return this.#options.marks.put([eventId], 'unreadable')
    if (event.type === 'm.reaction') return this.#reacted(roomId, event)
    if (event.type === 'm.room.redaction') return this.#redacted(roomId, event)
    const message = event.type === 'm.room.message' ? readMessage(event) : undefined
    const isTaken = message !== undefined && this.#isAllowed(event.sender)
    if (!isTaken) return this.#options.marks.put([eventId], 'ignored')
    await this.#said(row, message)
  }

  #isAllowed(account: string): boolean {
    const { env } = this.#options
    const own = [`*:${serverOf(env.MATRIX_ORACLE_ADMIN_USER_ID)}`]
    return isOnList(account, env.MESSAGING_ALLOW ?? own)
  }

  async #said(row: Incoming['row'], message: PersonMessage): Promise<void> {
    const { rooms, people } = this.#options
    const isEdit = message.replaces !== undefined
    const replaced = isEdit ? await this.#takingBack.forOthers(row.room_id, message) : undefined
    if (isEdit && !replaced) return this.#options.marks.put([row.event_id], 'ignored')
    const room = await rooms.rowOf(row.room_id)
    const addressed = await this.#addressed(room, message, replaced)
    if (!addressed) {
      const { names } = await rooms.view(room.room_id)
      this.#overheard.add(room.room_id, names.get(message.sender) ?? message.sender, message.text)
      return this.#options.marks.put([row.event_id], 'ignored')
    }
    const speaker = await people.speakerOf(message.sender)
    // In the room of a person and the oracle others may be, such as a memory engine: they are not answered.
    if (room.did !== null && room.did !== speaker.did)
      return this.#options.marks.put([row.event_id], 'ignored')
    const generation = Number(room.generation)
    const session = sessionIdOf(room.room_id, generation, addressed.threadKey, speaker.did)
    const isDirect = room.kind === 'direct'
    const heard = {
      row,
      message,
      text: addressed.text,
      place: addressed.place,
      sessionId: session,
      did: speaker.did,
      isShared: !isDirect,
    }
    // A turn that another process began: it was counted, and no command, then.
    if (row.state === 'running') return this.#joining.add({ ...heard, quoted: [] })
    const answer = await commanded(addressed.text, {
      people,
      account: message.sender,
      isDirect,
      ...speaker,
      url: this.#options.oracle.url(),
      stop: () => this.#stop(speaker.did, session),
      renew: () => this.#renew(room),
    })
    if (answer !== undefined) return this.#close(row, addressed.place, answer)
    const most = this.#options.env.MESSAGING_MAX_FILE_BYTES
    const isTooLarge = (message.file?.bytes ?? 0) > most
    const refusal = isTooLarge
      ? `A file has ${most} bytes at most.`
      : // What joins a turn that waits is no turn of its own, and counts for none.
        this.#joining.hasRoom(session)
        ? undefined
        : this.#refusalOf(room, message.sender, speaker.isGuest)
    if (refusal === '') return this.#options.marks.put([row.event_id], 'refused')
    if (refusal !== undefined) return this.#close(row, addressed.place, refusal, 'refused')
    if (await this.#decided(row, session, message.sender, addressed.text)) return
    const { thread = null } = addressed.place
    await this.#options.marks.put([row.event_id], 'received', {
      session_id: session,
      did: speaker.did,
      thread,
    })
    const quoted = isDirect ? [] : this.#overheard.take(room.room_id)
    this.#joining.add({ ...heard, quoted })
  }

  /** Where a message of a room is answered; undefined where it is not for the oracle. An edit stands where its message stood. */
  async #addressed(
    room: RoomsTable,
    message: PersonMessage,
    replaced: Replaced | undefined,
  ): Promise<Addressed | undefined> {
    const { text, replaces } = message
    const replyTo = replaces ?? message.eventId
    const thread = replaced ? replaced.thread : message.thread
    const roomId = room.room_id
    if (room.kind === 'direct')
      return { message, text, place: { roomId, replyTo, thread }, threadKey: thread ?? '' }
    const named = await this.#named(roomId, message)
    const isFor =
      replaced !== undefined ||
      named !== undefined ||
      (message.replyTo !== undefined && (await this.#options.sent.has(message.replyTo))) ||
      (thread !== undefined && (await this.#hasOpened(thread, message.sender)))
    if (!isFor) return undefined
    const root = thread ?? replyTo
    const place = { roomId, replyTo, thread: root }
    return { message, text: named ?? text, place, threadKey: root }
  }

  /** The words without the oracle's name, where a message begins with it or mentions the account. */
  async #named(roomId: string, { text, mentions }: PersonMessage): Promise<string | undefined> {
    const { userId, rooms } = this.#options
    const { names } = await rooms.view(roomId)
    const local = userId.slice(1, userId.indexOf(':'))
    for (const name of [names.get(userId), userId, `@${local}`, local]) {
      if (!name || !text.toLowerCase().startsWith(name.toLowerCase())) continue
      const rest = text.slice(name.length)
      if (/^[\s:,]/.test(rest)) return rest.replace(/^[\s:,]+/, '')
    }
    return mentions.includes(userId) ? text : undefined
  }

  async #hasOpened(root: string, sender: string): Promise<boolean> {
    const { db } = this.#options
    const known = await db
      .selectFrom('messaging_events')
      .select('event_id')
      .where('event_id', '=', root)
      .where('sender', '=', sender)
      .where('thread', '=', root)
      .executeTakeFirst()
    return known !== undefined
  }

  /** Why a message gets no turn: a sentence, or nothing at all. Undefined where it gets one. */
  #refusalOf(room: RoomsTable, sender: string, isGuest: boolean): string | undefined {
    const { env, oracle } = this.#options
    const now = Date.now()
    if (isGuest && !env.MESSAGING_GUESTS)
      return `I answer people whom I know. Get a code at ${oracle.url()} and write \`!link CODE\` to me.`
    const most = env.MESSAGING_TURNS_PER_MINUTE
    if (!this.#counts.take(sender, most, now) || !this.#counts.take(room.room_id, most * 3, now)) {
      const isFirst = this.#counts.take(`told ${sender}`, 1, now)
      return isFirst ? 'That was a lot at once. Give me a minute.' : ''
    }
    if (room.kind === 'direct') return undefined
    const rally = this.#rallies.take(room.room_id, sender, now)
    if (rally === 'yes') return undefined
    return rally === 'told' ? 'I will be quiet here for five minutes.' : ''
  }

  /** Words that answer a question of the oracle. Other words are a no, and go on to a turn of their own. */
  async #decided(
    row: Incoming['row'],
    session: string,
    sender: string,
    text: string,
  ): Promise<boolean> {
    const { asks, conversations } = this.#options
    const ask = await asks.in(session)
    if (!ask || ask.account !== sender) return false
    const decision = decisionIn(text)
    const going = conversations.decide(ask, decision ?? { decision: 'reject' }, row.event_id)
    if (decision) await this.#options.marks.put([row.event_id], 'answered')
    this.#watch(going, row.event_id)
    return decision !== undefined
  }

  async #reacted(roomId: string, event: ServerEvent): Promise<void> {
    const { asks, conversations } = this.#options
    await this.#options.marks.put([event.event_id], 'answered')
    const annotation = annotationOf(event)
    const decision = annotation && decisionOf(annotation.key)
    const ask = decision && (await asks.of(annotation.eventId))
    if (!ask || ask.room_id !== roomId || ask.account !== event.sender) return
    if (Number(ask.words_only) === 1) {
      const { event_id: replyTo, request_id: requestId } = ask
      const place = { roomId, replyTo, thread: undefined, requestId }
      const text = 'A reaction is not enough here, because it travels in the open. Write yes or no.'
      await conversations.say(place, text, requestIdOf(event.event_id))
      return
    }
    this.#watch(conversations.decide(ask, decision, event.event_id), event.event_id)
  }

  /** Takes back what a person took back: the turn, its words, and the answer. */
  async #redacted(roomId: string, event: ServerEvent): Promise<void> {
    const target = event.redacts ?? event.content.redacts
    await this.#options.marks.put([event.event_id], 'ignored')
    if (typeof target === 'string') await this.#takingBack.of(roomId, target)
  }

  #stop(did: string, session: string): Promise<boolean> {
    return this.#options.turns.abort({ user: { did }, session })
  }

  async #renew({ room_id: roomId, generation }: RoomsTable): Promise<void> {
    await this.#options.db
      .updateTable('messaging_rooms')
      .set({ generation: Number(generation) + 1 })
      .where('room_id', '=', roomId)
      .execute()
  }

  /** Answers a message by a sentence, without a turn. */
  async #close(
    row: Incoming['row'],
    place: Place,
    text: string,
    state: EventState = 'answered',
  ): Promise<void> {
    const { request_id: requestId } = row
    await this.#options.conversations.say({ ...place, requestId }, text, `${requestId}.c`)
    await this.#options.marks.put([row.event_id], state)
  }

  async #start(heard: readonly Heard[]): Promise<void> {
    const { conversations, marks } = this.#options
    const [first] = heard
    const last = heard.at(-1)
    if (!first || !last) return
    const eventIds = heard.map(({ row }) => row.event_id)
    const requestId = first.row.request_id
    if (!(await marks.begin(eventIds, requestId, first.place.thread))) return
    const turn = {
      requestId,
      eventIds,
      account: first.message.sender,
      did: first.did,
      sessionId: first.sessionId,
      isShared: first.isShared,
      text:
        heard
          .map(({ text }) => text)
          .filter((text) => text !== '')
          .join('\n') || fileQuestion,
      quoted: heard.flatMap(({ quoted }) => quoted),
      attachments: heard.flatMap(({ message }) =>
        message.file ? [attachmentOf(message.file, first.did, this.#options.seal)] : [],
      ),
      place: last.place,
    }
    let mayBeSent = first.row.state === 'running'
    await this.#persist(first.row.event_id, () => {
      const answered = conversations.answer({ ...turn, mayBeSent })
      mayBeSent = true
      return answered
    })
  }

  /** Does something until it works: the server may be away. What it refuses for good is not tried again. */
  async #persist(eventId: string, work: () => Promise<void>): Promise<void> {
    const { log, signal } = this.#options
    let pauseMs = patience.firstMs
    for (let left = patience.tries; left > 0 && !signal.aborted; left--) {
      try {
        return await work()
      } catch (err) {
        if (signal.aborted) return
        log.warn({ err, eventId }, 'A message is not answered yet')
        if (err instanceof ServerFault && err.kind === 'refused')
          return this.#options.marks.put([eventId], 'refused')
      }
      await pause(pauseMs, signal).catch(() => undefined)
      pauseMs = Math.min(pauseMs * 2, patience.longestMs)
    }
  }

  /** Lets something go on by itself; what it runs into is said in the log. */
  #watch(going: Promise<unknown>, eventId: string): void {
    const { log, signal } = this.#options
    going.catch((err: unknown) => {
      if (!signal.aborted) log.warn({ err, eventId }, 'A message is not answered yet')
    })
  }
}

/** How often a message is tried; after that the next start takes it up. */
const patience = { tries: 100, firstMs: 2_000, longestMs: 60_000 }

const fileQuestion = 'What is in this file?'
