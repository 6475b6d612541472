import type { Context as KoaContext } from 'koa'

/** The request of a client that reads a turn. */
export interface Reading {
  /** The signal of the route: it fires when the client leaves, and when the server closes. */
  readonly signal: AbortSignal
  /** The request. Its header `X-Alone` says for how long the turn goes on without a reader; left out, no header is read. */
  readonly koa?: KoaContext
  /** For how long where no header says so, in milliseconds: 30 seconds by default; 0 ends the turn with its connection. */
  readonly stopAfterMs?: number
}

/** What a turn is started with, so that it ends when nobody reads it any more. */
export interface Attendance {
  /** For `turns.start`: the turn goes on for so long without a reader, on any replica. */
  readonly whenAlone?: { readonly stopAfterMs: number }
  /** For `turns.start` and `turns.resume`: reading the events ends with the connection. */
  readonly reader: AbortSignal
  /** For `turns.start` and `turns.resume`: the turn ends with its connection. */
  readonly signal?: AbortSignal
}
