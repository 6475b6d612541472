import type { Log } from '#core'
import type { ServerEvent } from '../device/device.ts'
import { path } from '../server/api.ts'
import { ServerFault } from '../server/fault.ts'
import type { Line } from '../server/line.ts'
import type { MessagingDatabase, RoomsTable } from '../tables.ts'

/** What is known of a room from its state. */
export interface RoomView {
  readonly id: string
  /** What became of each account: `join`, `invite` and so on. */
  readonly members: Map<string, string>
  /** The names that accounts show in the room. */
  readonly names: Map<string, string>
  isEncrypted: boolean
  name: string | undefined
}

/** How many rooms are remembered; another one is read again when it is needed. */
const mostViews = 1_000
const longestName = 200
/** How often a send is tried again, and the first pause. */
const sendTries = { most: 12, firstMs: 500, longestMs: 30_000 }

/** The rooms that the oracle is in. */
export class Rooms {
  readonly #line: Line
  readonly #db: MessagingDatabase
  readonly #log: Log
  readonly #signal: AbortSignal
  readonly #views = new Map<string, Promise<RoomView>>()

  constructor(line: Line, db: MessagingDatabase, log: Log, signal: AbortSignal) {
    this.#line = line
    this.#db = db
    this.#log = log
    this.#signal = signal
  }

  /** What is known of a room; read from the server where it is not remembered. */
  view(roomId: string): Promise<RoomView> {
    const known = this.#views.get(roomId) ?? this.#read(roomId)
    this.#views.delete(roomId)
    this.#views.set(roomId, known)
    known.catch(() => this.#views.delete(roomId))
    for (const [oldest] of this.#views) {
      if (this.#views.size <= mostViews) break
      this.#views.delete(oldest)
    }
    return known
  }

  /** Takes changes of the state in, where the room is remembered. */
  async apply(roomId: string, events: readonly ServerEvent[]): Promise<void> {
    const known = this.#views.get(roomId)
    if (!known) return
    const view = await known
    for (const event of events) if (event.state_key !== undefined) apply(view, event)
    if (events.some(({ type }) => type === 'm.room.encryption')) await this.#note(view)
  }

  /** What is remembered of a room; undefined where nothing is. */
  remembered(roomId: string): Promise<RoomView> | undefined {
    return this.#views.get(roomId)
  }

  /** What the database has of a room; made where a room is new. Two people beside the oracle make a group of it. */
  async rowOf(roomId: string): Promise<RoomsTable> {
    const known = await this.#db
      .selectFrom('messaging_rooms')
      .selectAll()
      .where('room_id', '=', roomId)
      .executeTakeFirst()
    if (known) return known
    const others = await this.others(roomId)
    const [account] = others
    const kind = others.length > 1 ? 'group' : 'direct'
    const row = {
      room_id: roomId,
      kind,
      account: kind === 'direct' ? (account ?? null) : null,
      did: null,
      generation: 0,
      joined_at: Date.now(),
    } as const
    await this.#db
      .insertInto('messaging_rooms')
      .values(row)
      .onConflict((on) => on.column('room_id').doNothing())
      .execute()
    await this.#note(await this.view(roomId))
    return row
  }

  /** Everybody in the room, and who is invited, but the oracle. */
  async others(roomId: string): Promise<string[]> {
    const { members } = await this.view(roomId)
    return [...members]
      .filter(([account, is]) => account !== this.#line.userId && isIn(is))
      .map(([account]) => account)
  }

  /**
   * Sends an event, encrypted where the room is, until the server has it. The transaction id makes it one event, however often
   * it is sent.
   */
  async send(roomId: string, type: string, content: object, txn: string): Promise<string> {
    for (let pauseMs = sendTries.firstMs, left = sendTries.most; ; left--) {
      try {
        return await this.sendOnce(roomId, type, content, txn)
      } catch (thrown) {
        this.#signal.throwIfAborted()
        const isPassing =
          thrown instanceof ServerFault && !['refused', 'rejected'].includes(thrown.kind)
        if (!isPassing || left <= 0) throw thrown
        await pause(thrown.waitMs ?? pauseMs, this.#signal)
        pauseMs = Math.min(pauseMs * 2, sendTries.longestMs)
      }
    }
  }

  /** Sends an event once; the caller decides what a failure means. */
  async sendOnce(roomId: string, type: string, content: object, txn: string): Promise<string> {
    const { api, device } = this.#line
    const { isEncrypted, members } = await this.view(roomId)
    let [sentType, sent] = [type, content]
    if (isEncrypted && type !== 'm.reaction') {
      const readers = [...members].filter(([, is]) => isIn(is)).map(([account]) => account)
      const { 'm.relates_to': relation, ...words }: Record<string, unknown> = { ...content }
      const sealed = await device.encrypt(roomId, readers, type, words)
      sentType = 'm.room.encrypted'
      // The server has to know what belongs together; it reads nothing else.
      sent = relation === undefined ? sealed : { ...sealed, 'm.relates_to': relation }
    }
    const answer = await api.put(path`/rooms/${roomId}/send/${sentType}/${txn}`, sent)
    return String(answer.event_id)
  }

  /** Our newest messages that answer a message, the oldest first; edits are none. A relation stands in the open. */
  async replies(roomId: string, eventId: string): Promise<string[]> {
    const { api, userId } = this.#line
    const query = { dir: 'b', limit: String(lookBack) }
    const { chunk } = await api.get(path`/rooms/${roomId}/messages`, { query })
    const events = (Array.isArray(chunk) ? chunk : []).map(readEvent)
    return events
      .filter((event) => event?.sender === userId && isReplyTo(event, eventId))
      .flatMap((event) => event?.event_id ?? [])
      .reverse()
  }

  async redact(roomId: string, eventId: string, txn: string): Promise<void> {
    await this.#line.api.put(path`/rooms/${roomId}/redact/${eventId}/${txn}`, {})
  }

  /** Shows that the oracle writes, or that it does no more. Nobody waits for it. */
  typing(roomId: string, isTyping: boolean): void {
    const { api, userId } = this.#line
    const body = isTyping ? { typing: true, timeout: 30_000 } : { typing: false }
    api
      .put(path`/rooms/${roomId}/typing/${userId}`, body)
      .catch((err: unknown) => this.#log.debug({ err }, 'Typing was not shown'))
  }

  /** Shows that a message was read. */
  receipt(roomId: string, eventId: string): void {
    this.#line.api
      .post(path`/rooms/${roomId}/receipt/m.read/${eventId}`, {})
      .catch((err: unknown) => this.#log.debug({ err }, 'A receipt was not sent'))
  }

  /** An event of a room as the server has it, opened where it is encrypted; undefined while its key is not there. */
  async event(roomId: string, eventId: string): Promise<ServerEvent | undefined> {
    const event = readEvent(await this.#line.api.get(path`/rooms/${roomId}/event/${eventId}`))
    return event && this.open(roomId, event)
  }

  /** An event, opened where it is encrypted; undefined while its key is not there. */
  async open(roomId: string, event: ServerEvent): Promise<ServerEvent | undefined> {
    return event.type === 'm.room.encrypted' ? this.#line.device.decrypt(roomId, event) : event
  }

  async leave(roomId: string): Promise<void> {
    await this.#line.api.post(path`/rooms/${roomId}/leave`, {})
  }

  async #read(roomId: string): Promise<RoomView> {
    const view: RoomView = {
      id: roomId,
      members: new Map(),
      names: new Map(),
      isEncrypted: false,
      name: undefined,
    }
    for (const one of await this.#line.api.list(path`/rooms/${roomId}/state`)) {
      const event = readEvent(one)
      if (event) apply(view, event)
    }
    await this.#note(view)
    return view
  }

  /** Keeps whether a room is encrypted, for those who ask another process. */
  async #note({ id, isEncrypted }: RoomView): Promise<void> {
    await this.#db
      .updateTable('messaging_rooms')
      .set({ encrypted: isEncrypted ? 1 : 0 })
      .where('room_id', '=', id)
      .where((of) =>
        of.or([of('encrypted', 'is', null), of('encrypted', '!=', isEncrypted ? 1 : 0)]),
      )
      .execute()
  }
}

/** How many of a room's last events are looked through for an answer that was sent before. */
const lookBack = 50

function isReplyTo({ content }: ServerEvent, eventId: string): boolean {
  const relation: unknown = content['m.relates_to']
  if (typeof relation !== 'object' || relation === null || !('m.in_reply_to' in relation))
    return false
  const reply: unknown = relation['m.in_reply_to']
  const isSame =
    typeof reply === 'object' && reply !== null && 'event_id' in reply && reply.event_id === eventId
  return isSame && !('rel_type' in relation && relation.rel_type === 'm.replace')
}

const isIn = (membership: string) => membership === 'join' || membership === 'invite'

function apply(view: RoomView, { type, state_key = '', content }: ServerEvent): void {
  if (type === 'm.room.encryption') view.isEncrypted = true
  else if (type === 'm.room.name') view.name = String(content.name ?? '').slice(0, longestName)
  else if (type === 'm.room.member') {
    view.members.set(state_key, String(content.membership))
    const name: unknown = content.displayname
    if (typeof name === 'string') view.names.set(state_key, name.slice(0, longestName))
  }
}

/** An event of a stranger's making, where it has the form of one. */
export function readEvent(given: unknown): ServerEvent | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const event: Record<string, any> = given // any: each field is looked at here
  const { type, event_id, sender, content, state_key, redacts, origin_server_ts, unsigned } = event
  const isEvent =
    typeof type === 'string' &&
    typeof event_id === 'string' &&
    event_id.length <= longestId &&
    typeof sender === 'string' &&
    sender.length <= longestId &&
    typeof content === 'object' &&
    content !== null
  if (!isEvent) return undefined
  return {
    type,
    event_id,
    sender,
    content,
    ...(typeof state_key === 'string' && { state_key }),
    ...(typeof redacts === 'string' && { redacts }),
    origin_server_ts: Number(origin_server_ts) || 0,
    ...(typeof unsigned === 'object' && unsigned !== null && { unsigned }),
  }
}

const longestId = 255

/** Waits, and throws when nobody waits any more. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
    function done() {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
  })
  signal.throwIfAborted()
}
