import type { Log, Oracle, StartedTurn, TurnEvent, Turns } from '#core'
import { RuntimeError } from '#core'
import type { RoomSessions } from '../rooms/room-sessions.ts'
import { pause, type Rooms } from '../rooms/rooms.ts'
import type { People } from '../people/people.ts'
import type { AsksTable, EventState, MessagingDatabase } from '../tables.ts'
import { type Asks, type Decision, question } from './asks.ts'
import type { Marks } from './marks.ts'
import { requestIdOf } from './message.ts'
import { Reply } from './reply.ts'
import type { Sent } from './sent.ts'
import { cleaned, messageOf, type Place } from './words.ts'

/** One or several messages of a person that become one turn. */
export interface RoomTurn {
  readonly requestId: string
  /** The messages, in their order. */
  readonly eventIds: readonly string[]
  readonly account: string
  readonly did: string
  readonly sessionId: string
  readonly isShared: boolean
  readonly text: string
  readonly quoted: readonly string[]
  readonly attachments: readonly unknown[]
  readonly place: Place
  /** Whether the first words may stand in the room already: another process, or an earlier try, began to answer. */
  readonly mayBeSent: boolean
}

/** What conversations are held with. */
export interface ConversationOptions {
  readonly rooms: Rooms
  readonly turns: Turns
  readonly asks: Asks
  readonly sent: Sent
  readonly sessions: RoomSessions
  readonly marks: Marks
  readonly people: People
  readonly db: MessagingDatabase
  readonly log: Log
  readonly oracle: Oracle
  readonly signal: AbortSignal
  readonly editMs: number
  readonly mostEdits: number
}

/** Where a sentence is said, and for which turn. */
export interface SayingPlace extends Place {
  readonly requestId: string
}

/** Where a turn is read to: the reply, and what is done with the words once they are there. */
interface Reading {
  readonly turn: Omit<RoomTurn, 'text' | 'quoted' | 'attachments' | 'mayBeSent'>
  readonly reply: Reply
  runId: string | undefined
  fault: string | undefined
  components: string[]
}

const typingMs = 20_000
const longestTable = 2_000

/** Turns of the agent for messages in rooms, from the first word to the last edit. */
export class Conversations {
  readonly #options: ConversationOptions
  /** Turns whose words were taken back, by request id: nothing of them is shown any more. */
  readonly #takenBack = new Set<string>()
  readonly #nudged = new Set<string>()

  constructor(options: ConversationOptions) {
    this.#options = options
  }

  /** Has a message answered, or goes on with an answer that another process began. */
  async answer(turn: RoomTurn): Promise<void> {
    const { turns, rooms, log } = this.#options
    const { requestId, sessionId, did, text, quoted, attachments, isShared, place } = turn
    const { isEncrypted } = await rooms.view(place.roomId)
    const starting = () =>
      turns.start({
        user: { did },
        delegation: 'stored',
        session: sessionId,
        message: text,
        requestId,
        approvals: 'events',
        metadata: {
          roomId: place.roomId,
          encrypted: isEncrypted,
          ...(place.thread !== undefined && { thread: place.thread }),
        },
        ...(isShared && { room: place.roomId, shared: true }),
        ...(quoted.length > 0 && { quoted }),
        ...(attachments.length > 0 && { attachments }),
      })
    let started: StartedTurn
    try {
      started = await this.#begun(starting)
    } catch (refused) {
      if (!(refused instanceof RuntimeError) || refused.status >= 500) throw refused
      log.info({ requestId, code: refused.code }, 'A turn for a room was refused')
      const sentence = this.#sentenceOf(refused.code, refused.message)
      await this.say({ ...place, requestId }, sentence, `${requestId}.r`)
      return this.#mark(turn, 'refused')
    }
    await this.#options.sessions.met(sessionId, place.roomId, did)
    const reply = await this.#replyTo(turn)
    await this.#read(turn, started, reply)
  }

  /** Goes on with a turn that waited for a person. False when somebody was faster. */
  async decide(ask: AsksTable, decision: Decision, eventId: string): Promise<boolean> {
    const { turns, asks, rooms, db, people, sent } = this.#options
    const { did, run_id, room_id, session_id, account, request_id } = ask
    // The account may have another DID by now.
    const isSame = (await people.speakerOf(account)).did === did
    const going = { user: { did }, runId: run_id, ...decision }
    const started = turns.resume({ ...going, ...(isSame && { delegation: 'stored' }) })
    try {
      await started.begun
    } catch (refused) {
      if (!(refused instanceof RuntimeError) || refused.status >= 500) throw refused
      await asks.take(ask.event_id)
      return false
    }
    if (!(await asks.take(ask.event_id))) return false
    const { thread } = await db
      .selectFrom('messaging_events')
      .select('thread')
      .where('request_id', '=', request_id)
      .executeTakeFirstOrThrow()
    const row = await rooms.rowOf(room_id)
    const turn = {
      requestId: request_id,
      eventIds: [],
      account,
      did,
      sessionId: session_id,
      isShared: row.kind === 'group',
      place: { roomId: room_id, replyTo: eventId, thread: thread ?? undefined },
    }
    const txn = requestIdOf(`${ask.event_id} ${eventId}`)
    let sends = 0
    const reply = new Reply({
      ...this.#pace,
      place: turn.place,
      sentAs: undefined,
      mayBeSent: false,
      firstTxn: `${txn}.0`,
      nextTxn: async () => `${txn}.${++sends}`,
      sent: (id) => sent.put(request_id, room_id, id),
    })
    await this.#read(turn, started, reply)
    return true
  }

  /** Says a sentence in a room, for the turn of this request id. */
  async say(place: SayingPlace, text: string, txn: string): Promise<string> {
    const { rooms, sent } = this.#options
    const content = await messageOf(text, place)
    const eventId = await rooms.send(place.roomId, 'm.room.message', content, txn)
    await sent.put(place.requestId, place.roomId, eventId)
    return eventId
  }

  /** Shows nothing more of a turn. */
  takeBack(requestId: string): void {
    if (this.#takenBack.size >= mostTakenBack) this.#takenBack.clear()
    this.#takenBack.add(requestId)
  }

  /** Begins a turn; tries again while the server is not ready for it. */
  async #begun(starting: () => StartedTurn): Promise<StartedTurn> {
    const { signal } = this.#options
    for (let pauseMs = pauses.firstMs; ; pauseMs = Math.min(pauseMs * 2, pauses.longestMs)) {
      signal.throwIfAborted()
      try {
        const started = starting()
        await started.begun
        return started
      } catch (refused) {
        if (refused instanceof RuntimeError && refused.status < 500) throw refused
        await pause(pauseMs, signal)
      }
    }
  }

  get #pace() {
    const { rooms, log, editMs, mostEdits } = this.#options
    return { rooms, log, editMs, mostEdits }
  }

  async #replyTo({ requestId, eventIds, place, mayBeSent }: RoomTurn): Promise<Reply> {
    const { db, sent } = this.#options
    const { rooms } = this.#options
    const [first = ''] = eventIds
    const row = await db
      .selectFrom('messaging_events')
      .select('answer_id')
      .where('event_id', '=', first)
      .executeTakeFirst()
    // Nobody knows whether the first message left: a server forgets transaction ids, and knows none of another device.
    const earlier =
      mayBeSent && row?.answer_id === null ? await rooms.replies(place.roomId, place.replyTo) : []
    const isOther = await Promise.all(earlier.map((eventId) => sent.has(eventId)))
    const changed = db.updateTable('messaging_events').where('event_id', '=', first)
    return new Reply({
      ...this.#pace,
      place,
      sentAs: row?.answer_id ?? earlier.find((_, n) => !isOther[n]),
      mayBeSent,
      firstTxn: `${requestId}.0`,
      nextTxn: async () => {
        const { sends } = await changed
          .set((of) => ({ sends: of('sends', '+', 1) }))
          .returning('sends')
          .executeTakeFirstOrThrow()
        return `${requestId}.${sends}`
      },
      sent: async (eventId) => {
        await changed.set({ answer_id: eventId }).where('answer_id', 'is', null).execute()
        await sent.put(requestId, place.roomId, eventId)
      },
    })
  }

  async #read(turn: Reading['turn'], started: StartedTurn, reply: Reply): Promise<void> {
    const { rooms, signal } = this.#options
    const { roomId } = turn.place
    const reading: Reading = { turn, reply, runId: undefined, fault: undefined, components: [] }
    rooms.typing(roomId, true)
    const typing = setInterval(() => rooms.typing(roomId, true), typingMs).unref()
    try {
      for await (const event of started) {
        if (signal.aborted) return
        const status = await this.#take(reading, event)
        if (status !== undefined) return await this.#end(reading, status)
      }
      // A turn that was taken away while it waited has no events.
      await this.#mark(turn, 'ignored')
    } finally {
      clearInterval(typing)
      rooms.typing(roomId, false)
    }
  }

  /** Takes one event in; resolves to how the turn ended, once it has. */
  async #take(reading: Reading, event: TurnEvent): Promise<string | undefined> {
    const { reply, turn } = reading
    const isHidden = this.#takenBack.has(turn.requestId)
    if (event.event === 'done') return event.data.status
    if (isHidden) return undefined
    switch (event.event) {
      case 'run':
        reading.runId = event.data.runId
        if (event.data.resumed) reply.cut(event.data.partialLength ?? 0)
        break
      case 'message':
        reply.add(event.data.content)
        break
      case 'tool_call':
        reply.note(event.data.status === 'isRunning' ? doing(event.data.toolName) : '')
        break
      case 'render_component':
        if (event.data.status !== 'isRunning') reading.components.push(tableOf(event.data))
        break
      case 'error':
        reading.fault = this.#sentenceOf(event.data.code, event.data.error)
        break
      case 'delegation_required':
        await this.#nudge(turn)
        break
      case 'interrupt':
        await this.#ask(reading, event.data)
        break
    }
    return undefined
  }

  async #end({ turn, reply, fault, components }: Reading, status: string): Promise<void> {
    const { rooms, log, sent } = this.#options
    if (this.#takenBack.has(turn.requestId)) {
      reply.cut(0)
      await reply.drop()
      // What was on its way while the words were taken back.
      for (const id of await sent.of(turn.requestId))
        await rooms.redact(turn.place.roomId, id, requestIdOf(`redacted ${id}`))
      return
    }
    const words = [reply.text, ...components, ...(fault === undefined ? [] : [fault])]
    const text = cleaned(words.filter((one) => one.trim() !== '').join('\n\n'))
    await reply.finish(text === '' && status === 'aborted' ? 'Stopped.' : text)
    const [eventId] = turn.eventIds
    if (eventId !== undefined) rooms.receipt(turn.place.roomId, turn.eventIds.at(-1) ?? eventId)
    await this.#mark(turn, 'answered')
    log.debug({ requestId: turn.requestId, status }, 'A message in a room was answered')
  }

  /** Asks the person whether a tool may run. The row of the question is what the answer is checked against. */
  async #ask(
    { turn, runId }: Reading,
    data: Extract<TurnEvent, { event: 'interrupt' }>['data'],
  ): Promise<void> {
    const { asks, rooms } = this.#options
    const { place, requestId, account, did, sessionId } = turn
    const run = data.runId ?? runId
    if (await asks.ofRun(run)) return
    const { isEncrypted } = await rooms.view(place.roomId)
    // A reaction travels in the open, so a server could make one up.
    const text = question(data.toolName, data.args, isEncrypted, data.question)
    const asking = { ...place, requestId }
    const eventId = await this.say(asking, text, requestIdOf(`${run} ${data.toolCallId}`))
    await asks.put({
      event_id: eventId,
      room_id: place.roomId,
      account,
      did,
      session_id: sessionId,
      run_id: run,
      request_id: requestId,
      words_only: isEncrypted ? 1 : 0,
      at: Date.now(),
    })
  }

  async #nudge({ sessionId, place, requestId, account }: Reading['turn']): Promise<void> {
    if (this.#nudged.has(sessionId)) return
    if (this.#nudged.size >= mostNudged) this.#nudged.clear()
    this.#nudged.add(sessionId)
    const { oracle, people } = this.#options
    const { isGuest } = await people.speakerOf(account)
    const text = isGuest
      ? `I may not do that for a guest. Get a code at ${oracle.url()} and write \`!link CODE\` to me in a direct room.`
      : `I need your permission for that: open ${oracle.url()} and sign in.`
    await this.say({ ...place, requestId }, text, `${requestId}.d`)
  }

  async #mark({ eventIds, sessionId, did }: Reading['turn'], state: EventState): Promise<void> {
    await this.#options.marks.put(eventIds, state, { session_id: sessionId, did })
  }

  #sentenceOf(code: string, message: string): string {
    const isPayment = code === 'PAYMENT_REQUIRED'
    return isPayment ? `${message} ${this.#options.oracle.url()}` : message
  }
}

const mostNudged = 10_000
const mostTakenBack = 10_000
const pauses = { firstMs: 500, longestMs: 30_000 }
const doing = (tool: string) => `${tool.replaceAll('_', ' ').slice(0, 60)}…`

/** A component as a short list of its arguments. */
function tableOf({ componentName, args }: { componentName: string; args: object }): string {
  const lines = Object.entries(args).map(([name, value]) => {
    const shown = typeof value === 'string' ? value : JSON.stringify(value)
    return `- ${name}: ${shown}`
  })
  return `**${componentName}**\n\n${lines.join('\n')}`.slice(0, longestTable)
}
