import type { User } from './context.ts'

/** An event of a turn, as it travels to clients. */
export interface TurnEvent {
  /** The event's number in the stream of its turn. */
  readonly seq: number
  /** The event's name: `message`, `tool_call`, `done` and so on. */
  readonly event: string
  /** What the event says; `docs/events.md` lists it by name. */
  readonly data: Record<string, unknown>
}

/** Lets a plugin start a turn of its own: a message that came from elsewhere. */
export interface Turns {
  /** Starts a turn and yields its events to the end. The turn goes on also when nobody reads them. */
  start(turn: {
    /** Who speaks. */
    readonly user: User | { readonly did: string }
    /** The session; a new one where none is named. */
    readonly session?: string
    /** What the user says. */
    readonly message: string
    /** A UUID of the turn. The same in the same session finds the turn again, from its first event. */
    readonly requestId?: string
    /** Stops the turn, also one that waits for a person or is carried by another server. */
    readonly signal?: AbortSignal
  }): AsyncIterable<TurnEvent>
}
