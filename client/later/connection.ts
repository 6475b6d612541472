import { createParser } from 'eventsource-parser'
import { type OracleError, toOracleError } from '../core/error.ts'
import { onReturn, type Timing } from '../core/timing.ts'

/** After such a silence, one missed heartbeat, a page that the user sees again gives its connection up. */
const staleMs = 16_000

/** An event of a stream. The number of an event without one is NaN, which is neither before nor after any. */
export interface StreamEvent {
  readonly id: number
  readonly eventName: string
  readonly payload: unknown
}

/** What one connection is told, and when it ends from outside. */
export interface Reading {
  readonly signal: AbortSignal
  readonly timing: Timing
  onResponse(response: Response): void
  onEvent(event: StreamEvent): void
}

/** Reads one stream of events to its end, or until no byte came for too long; resolves to the fault that ended the stream. */
export async function readStream(
  open: (signal: AbortSignal) => Promise<Response>,
  { signal, timing, onResponse, onEvent }: Reading,
): Promise<OracleError | undefined> {
  // Ends this connection alone: after a stall the next connection goes on.
  const connection = new AbortController()
  const cut = () => connection.abort()
  signal.addEventListener('abort', cut)
  let heard = Date.now()
  const watch = setInterval(() => Date.now() - heard >= timing.stallMs && cut(), timing.stallMs / 8)
  const stopWatching = onReturn(() => Date.now() - heard >= staleMs && cut())
  try {
    const response = await open(connection.signal)
    onResponse(response)
    await readEvents(response, connection.signal, () => (heard = Date.now()), onEvent)
    return undefined
  } catch (thrown) {
    return toOracleError(thrown)
  } finally {
    clearInterval(watch)
    stopWatching()
    signal.removeEventListener('abort', cut)
    cut()
  }
}

/** Whether another try may mend the fault. */
export const mayMend = ({ code, status }: OracleError): boolean =>
  code === 'network' ||
  code === 'timeout' ||
  code === 'rate_limited' ||
  (status > 500 && status < 505)

async function readEvents(
  response: Response,
  signal: AbortSignal,
  onByte: () => void,
  onEvent: Reading['onEvent'],
): Promise<void> {
  const parser = createParser({
    onEvent({ id, event, data }) {
      if (event === undefined) return
      onEvent({ id: Number(id), eventName: event, payload: JSON.parse(data) })
    },
  })
  const decoder = new TextDecoder()
  const reader = response.body!.getReader()
  // In some browsers a body that is being read outlives its request's signal.
  const cancel = () => void reader.cancel().catch(() => {})
  signal.addEventListener('abort', cancel, { once: true })
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    onByte()
    parser.feed(decoder.decode(value, { stream: true }))
  }
}
