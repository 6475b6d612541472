import type { RuntimeError } from '../../errors.ts'
import type { RoomEvent } from './room-event.ts'

/** What a client sends, in whichever framing. */
export type ClientFrame =
  | {
      readonly kind: 'auth'
      readonly sessionId?: string
      readonly tokens: Tokens
      /** The client shows what waits for a person. */
      readonly approvals?: boolean
      /** How far the client has read the history of the session. */
      readonly cursor?: number
      /** The client wants the events of its user, after the notice of this number where it names one. */
      readonly user?: { readonly after?: number }
    }
  | {
      readonly kind: 'answer'
      readonly answer: ToolAnswer
      /** The number under which the client expects the acknowledgement. */
      readonly ack?: string
    }
  | { readonly kind: 'ping'; readonly pong: string }
  | { readonly kind: 'leave' }
  | { readonly kind: 'refused'; readonly reply: string }
  /** A frame that means nothing here, such as an unknown event. */
  | { readonly kind: 'nothing' }
  /** No frame of this framing. */
  | { readonly kind: 'broken' }

/** The credentials that a client sends over its socket. */
export interface Tokens {
  readonly invocation?: string
  readonly delegation?: string
}

/** What a client made of a call of one of its own tools. */
export interface ToolAnswer {
  readonly toolCallId: string
  /** The session that the client believes to be in. */
  readonly sessionId?: string
  readonly result?: unknown
  readonly error?: string
}

/** How the same events look on the wire. A framing has no state: one object serves all sockets. */
export interface Framing {
  readonly name: 'plain' | 'socket.io'
  /** Whether its clients can send new credentials before the old ones end. */
  readonly renews: boolean
  /** What the server says first. */
  greeting?(): string
  read(text: string): ClientFrame
  connected(sessionId: string | undefined): readonly string[]
  /** The event as a frame; undefined when clients of this framing have no use for the event. */
  event(event: RoomEvent): string | undefined
  /** What the server tells a client before it closes the socket. */
  refused?(error: RuntimeError): string
  acknowledged?(ack: string, accepted: boolean): string
  /** The frame that asks whether the client is still there; without one, WebSocket's own ping asks. */
  readonly ping?: string
}
