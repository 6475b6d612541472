import { randomBytes } from 'node:crypto'

/** JSON whose shape nobody has looked at. */
export type Json = Record<string, any> // any: a test server hands on what clients send

/** An event of a room. `position` is its place in the one stream of the server. */
export interface RoomEvent {
  readonly event_id: string
  readonly room_id: string
  readonly type: string
  readonly sender: string
  readonly state_key?: string
  content: Json
  readonly origin_server_ts: number
  readonly position: number
  redacts?: string
  unsigned: Json
}

/** What makes an event, beside its place. */
export interface NewEvent {
  readonly type: string
  readonly sender: string
  readonly content: Json
  readonly state_key?: string
  readonly redacts?: string
  readonly at?: number
}

/** A refusal in the words of Matrix. */
export class Refusal extends Error {
  readonly status: number
  readonly errcode: string
  readonly more: Json

  constructor(status: number, errcode: string, message: string = errcode, more: Json = {}) {
    super(message)
    this.status = status
    this.errcode = errcode
    this.more = more
  }
}

/** One room: its events in their order, and what its state is. */
export class Room {
  readonly id: string
  readonly events: RoomEvent[] = []
  readonly #state = new Map<string, RoomEvent>()
  readonly #next: () => number

  constructor(server: string, next: () => number) {
    this.id = `!${randomBytes(9).toString('base64url')}:${server}`
    this.#next = next
  }

  /** Adds an event; one with a `state_key` changes the state. */
  add({ at = Date.now(), ...event }: NewEvent): RoomEvent {
    const position = this.#next()
    const whole: RoomEvent = {
      ...event,
      event_id: `$${randomBytes(16).toString('base64url')}`,
      room_id: this.id,
      origin_server_ts: at,
      position,
      unsigned: {},
    }
    this.events.push(whole)
    if (event.state_key !== undefined) this.#state.set(`${event.type}|${event.state_key}`, whole)
    return whole
  }

  state(type: string, key = ''): RoomEvent | undefined {
    return this.#state.get(`${type}|${key}`)
  }

  get wholeState(): RoomEvent[] {
    return [...this.#state.values()]
  }

  membership(user: string): string | undefined {
    return this.state('m.room.member', user)?.content.membership
  }

  /** The accounts with this membership. */
  members(membership = 'join'): string[] {
    return this.wholeState
      .filter(({ type, content }) => type === 'm.room.member' && content.membership === membership)
      .map(({ state_key = '' }) => state_key)
  }

  levelOf(user: string): number {
    const levels = this.state('m.room.power_levels')?.content ?? {}
    return levels.users?.[user] ?? levels.users_default ?? 0
  }

  /** Refuses what the sender's level is too low for. */
  demandLevel(user: string, what: string, isState: boolean): void {
    const levels = this.state('m.room.power_levels')?.content ?? {}
    const usual = isState ? (levels.state_default ?? 50) : (levels.events_default ?? 0)
    const needed = what === 'invite' ? (levels.invite ?? 0) : (levels.events?.[what] ?? usual)
    if (this.levelOf(user) < needed)
      throw new Refusal(403, 'M_FORBIDDEN', `The level of ${user} is too low for ${what}.`)
  }

  demandJoined(user: string): void {
    if (this.membership(user) !== 'join') throw new Refusal(403, 'M_FORBIDDEN', 'Not in the room.')
  }

  /** Takes the words of an event away. */
  redact(eventId: string, sender: string, reason?: string): RoomEvent {
    const target = this.events.find(({ event_id }) => event_id === eventId)
    if (target && target.sender !== sender && this.levelOf(sender) < 50)
      throw new Refusal(403, 'M_FORBIDDEN')
    const event = this.add({
      type: 'm.room.redaction',
      sender,
      redacts: eventId,
      content: { redacts: eventId, ...(reason !== undefined && { reason }) },
    })
    if (target) {
      target.content = {}
      target.unsigned = { redacted_because: shown(event) }
    }
    return event
  }
}

/** An event as clients get it. */
export const shown = ({ position: _, ...event }: RoomEvent): Json => event
