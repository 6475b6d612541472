import type { ServerResponse } from 'node:http'
import type { StreamAnswer } from '../upstream/transport.ts'

/** The form of a stream: NDJSON lines, or server-sent events. */
export interface StreamForm {
  readonly type: string
  readonly item: (json: string) => string
  readonly failure: (json: string) => string
  /** The text that keeps a quiet connection alive. */
  readonly heartbeat?: string
}

/** The media type of NDJSON. */
export const ndjsonType = 'application/x-ndjson'
const ndjson: StreamForm = {
  type: ndjsonType,
  item: (json) => `{"result":${json}}\n`,
  failure: (json) => `{"error":${json}}\n`,
}
const events: StreamForm = {
  type: 'text/event-stream',
  item: (json) => `data: ${json}\n\n`,
  failure: (json) => `event: error\ndata: ${json}\n\n`,
  heartbeat: ': heartbeat\n\n',
}

/** The form of a stream for an Accept header: NDJSON, unless the client asks for events. */
export const formFor = (accept: string | undefined): StreamForm =>
  accept?.includes('text/event-stream') ? events : ndjson

/** The response for a stream, with the functions that write it. */
export interface Sending {
  readonly res: ServerResponse
  /** What stands in the response for one message. */
  readonly item: (message: Uint8Array) => string | Uint8Array
  /** What stands at the end of the response for a failure that comes after the first message. */
  readonly failure: (thrown: unknown) => string | Uint8Array
  /** What stands at the end of a response without a failure. */
  readonly end?: Uint8Array
  /** `sendStream` calls it once, before the first message. */
  readonly begin: () => void
  /** The text that keeps a quiet connection alive. */
  readonly heartbeat?: string | undefined
}

const heartbeatMs = 15_000
/** How long the status waits for the first message after the upstream has accepted the call. */
const hesitationMs = 1000
/** How long a reader may read nothing before the gateway closes the connection. */
const patienceMs = 120_000

/** Resolves when the response has room again, or when the reader is gone. */
function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      res.off('drain', done).off('close', done)
      resolve()
    }
    const timer = setTimeout(() => res.destroy(), patienceMs)
    res.on('drain', done).on('close', done)
  })
}

/** Sends a stream message by message, as fast as the reader reads. Throws a failure that comes before the first message. */
export async function sendStream(
  { messages, metadata }: StreamAnswer,
  { res, item, failure, end, begin, heartbeat }: Sending,
): Promise<void> {
  await metadata
  let begun = false
  const first = () => {
    if (!begun) begin()
    begun = true
  }
  // A quiet stream sends its headers too, because a client without headers cannot tell a quiet stream from a dead one.
  const early = setTimeout(() => {
    first()
    res.flushHeaders()
  }, hesitationMs)
  const beat = heartbeat && setInterval(() => begun && res.write(heartbeat), heartbeatMs)
  let last = end
  try {
    for await (const message of messages) {
      const line = item(message)
      first()
      if (res.destroyed) return
      if (!res.write(line)) await drained(res)
    }
  } catch (thrown) {
    if (!begun) throw thrown
    res.write(failure(thrown))
    last = undefined
  } finally {
    clearTimeout(early)
    clearInterval(beat)
  }
  first()
  res.end(last)
}
