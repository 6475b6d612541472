import type { ServerResponse } from 'node:http'
import type { StreamAnswer } from '../upstream/transport.ts'

/** The form of a stream: NDJSON lines, or server-sent events. */
export interface StreamForm {
  readonly type: string
  item(json: string): string
  failure(json: string): string
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

/** The response for a stream, with the form and the functions that write it. */
export interface Sending {
  readonly res: ServerResponse
  readonly form: StreamForm
  readonly write: (message: Uint8Array) => string
  /** `sendStream` calls it once, before the first line. */
  readonly begin: () => void
  /** The JSON for a failure that comes after the first line. */
  readonly explain: (thrown: unknown) => string
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

/** Sends a stream line by line, as fast as the reader reads. Throws a failure that comes before the first line. */
export async function sendStream(
  { messages, metadata }: StreamAnswer,
  { res, form, write, begin, explain }: Sending,
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
  const { heartbeat } = form
  const beat = heartbeat && setInterval(() => begun && res.write(heartbeat), heartbeatMs)
  try {
    for await (const message of messages) {
      const line = form.item(write(message))
      first()
      if (res.destroyed) return
      if (!res.write(line)) await drained(res)
    }
  } catch (thrown) {
    if (!begun) throw thrown
    res.write(form.failure(explain(thrown)))
  } finally {
    clearTimeout(early)
    clearInterval(beat)
  }
  first()
  res.end()
}
