import { errorCode } from './frames.ts'
import type { Headers } from './hpack.ts'

/** How a stream ended. `refused` means that the other side did nothing about it: it may be tried again. */
export type Closed =
  | { readonly kind: 'ended' | 'refused' }
  | { readonly kind: 'reset'; readonly code: number }
  | { readonly kind: 'lost'; readonly cause: Error | undefined; readonly spoke: boolean }

/** What a stream tells: its head, its data, its trailers, and last how it closed. */
export interface StreamEvents {
  headers(headers: Headers): void
  data(chunk: Buffer): void
  closed(how: Closed): void
}

/** A request on its way. */
export interface OpenStream {
  /** Tells the other side that nobody waits any more. Nothing of the stream is told after it. */
  cancel(): void
  /** Lets the other side send no more than its window. */
  pause(): void
  resume(): void
}

/** The other side broke the protocol, or never spoke it. */
export class ProtocolError extends Error {
  readonly code: number
  constructor(message: string, code: number = errorCode.protocol) {
    super(message)
    this.name = 'ProtocolError'
    this.code = code
  }
}

/** A stream as its connection keeps it. */
export interface Stream extends OpenStream {
  readonly id: number
  readonly events: StreamEvents
  /** What of the request may not be sent yet. */
  body: Buffer | undefined
  sendWindow: number
  received: number
  paused: boolean
}
