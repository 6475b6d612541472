import { errorCode } from './frames.ts'
import type { Headers } from './hpack.ts'

/** How a stream ended. `refused` means that the other side has not processed the request, which may be sent again. */
export type Closed =
  | { readonly kind: 'ended' | 'refused' }
  | { readonly kind: 'reset'; readonly code: number }
  | { readonly kind: 'lost'; readonly cause: Error | undefined; readonly spoke: boolean }

/** The events of a stream: its head, its data, its trailers, and last how the stream closed. */
export interface StreamEvents {
  headers(headers: Headers): void
  data(chunk: Buffer): void
  closed(how: Closed): void
}

/** A request that was sent. */
export interface OpenStream {
  /** Resets the stream. No events come after a cancel. */
  cancel(): void
  /** Stops enlarging the window, so that the other side sends no more than its present window. */
  pause(): void
  resume(): void
}

/** The error for another side that broke the HTTP/2 protocol, or does not speak it. */
export class ProtocolError extends Error {
  readonly code: number
  constructor(message: string, code: number = errorCode.protocol) {
    super(message)
    this.name = 'ProtocolError'
    this.code = code
  }
}

/** The state of a stream in its connection. */
export interface Stream extends OpenStream {
  readonly id: number
  readonly events: StreamEvents
  /** The part of the request body that has not been sent yet. */
  body: Buffer | undefined
  sendWindow: number
  received: number
  paused: boolean
}
