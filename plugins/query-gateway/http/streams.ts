import type { ServerResponse } from 'node:http'
import type { StreamAnswer } from '../upstream/transport.ts'

/** A stream in the form that the client accepts: NDJSON lines, or server-sent events. */
export interface StreamForm {
  readonly type: string
  item(json: string): string
  failure(json: string): string
  /** What says that the connection lives while there is nothing else to say. */
  readonly heartbeat?: string
}

/** The media type of a stream of lines. */
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

/** The form of a stream for what a client accepts: lines, unless it asks for events. */
export const formFor = (accept: string | undefined): StreamForm =>
  accept?.includes('text/event-stream') ? events : ndjson

/** Where a stream goes, and in which form. */
export interface Sending {
  readonly res: ServerResponse
  readonly form: StreamForm
  readonly write: (message: Uint8Array) => string
  /** Called once, before the first line. */
  readonly begin: () => void
  /** The body for a failure that comes when lines are already out. */
  readonly explain: (thrown: unknown) => string
}

const heartbeatMs = 15_000
/** How long a status waits for the first message, once the upstream has taken the call. */
const hesitationMs = 1000
/** How long a reader may take nothing of what waits for it. */
const patienceMs = 120_000

/** Resolves when there is room again, or when the reader is gone. */
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

/** Sends a stream line by line, as fast as the reader reads. A failure before the first line is thrown. */
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
  // A quiet stream begins all the same: a client that waits for its headers cannot tell it from a dead one.
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
