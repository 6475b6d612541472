import type { RuntimeError } from '../../errors.ts'
import type { RoomEvent } from './room-event.ts'

/** What a client sends, whichever framing it speaks. */
export type ClientFrame =
  | {
      readonly kind: 'auth'
      readonly sessionId?: string
      readonly tokens: Tokens
      /** The client shows what waits for a person. */
      readonly approvals?: boolean
    }
  | {
      readonly kind: 'answer'
      readonly answer: ToolAnswer
      /** What the client wants its acknowledgement to be called. */
      readonly ack?: string
    }
  | { readonly kind: 'ping'; readonly pong: string }
  | { readonly kind: 'leave' }
  | { readonly kind: 'refused'; readonly reply: string }
  /** Nothing that means anything here, such as an unknown event. */
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

/** How the same events look on the wire. Has no state: one serves all sockets. */
export interface Framing {
  readonly name: 'plain' | 'socket.io'
  /** Whether its clients can send new credentials before the old ones end. */
  readonly renews: boolean
  /** What the server says first. */
  greeting?(): string
  read(text: string): ClientFrame
  connected(sessionId: string): readonly string[]
  /** Undefined: clients of this framing have no use for it. */
  event(event: RoomEvent): string | undefined
  /** What a client is told before its socket is closed. */
  refused?(error: RuntimeError): string
  acknowledged?(ack: string, accepted: boolean): string
  /** How the server asks whether the client is still there; without it, by a ping of the protocol below. */
  readonly ping?: string
}
