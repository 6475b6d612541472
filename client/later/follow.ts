import { createParser } from 'eventsource-parser'
import { OracleError, toOracleError } from '../core/error.ts'
import type { AnyEvent } from '../core/events.ts'
import { backoff, onReturn, pause, type Timing } from '../core/timing.ts'

/** A run to read, and whom to tell what the run says. */
export interface Following {
  /** The run, when the caller knows it. */
  runId?: string
  /** Makes the request that begins the run, or finds the run that an earlier such request began. */
  begin(signal: AbortSignal): Promise<Response>
  /** Reads the events of a run after the one with a number. */
  join(runId: string, after: number, signal: AbortSignal): Promise<Response>
  onRun(runId: string): void
  onEvent(event: AnyEvent): void
  /** Hears that the connection is lost, or there again. */
  onConnection(connected: boolean): void
  readonly signal: AbortSignal
  readonly timing: Timing
}

/** After such a silence, one missed heartbeat, a page that the user sees again gives its connection up. */
const staleMs = 16_000

/**
 * Reads a run to its end, whatever happens to the connection: each event once, in order. Rejects with an error that
 * another try cannot mend.
 */
export async function follow(following: Following): Promise<void> {
  const { signal, timing } = following
  let { runId } = following
  let last = 0
  let ended = false
  for (let tries = 0; ;) {
    // Ends this connection alone: the next one goes on after a stall.
    const connection = new AbortController()
    const cut = () => connection.abort()
    signal.addEventListener('abort', cut)
    let fault: OracleError | undefined
    let heard = Date.now()
    const watch = setInterval(
      () => Date.now() - heard >= timing.stallMs && cut(),
      timing.stallMs / 8,
    )
    const stopWatching = onReturn(() => Date.now() - heard >= staleMs && cut())
    try {
      const response = runId
        ? await following.join(runId, last, connection.signal)
        : await following.begin(connection.signal)
      runId ??= response.headers.get('x-run-id') ?? undefined
      if (runId) following.onRun(runId)
      following.onConnection(true)
      await readEvents(response, connection.signal, {
        onByte: () => (heard = Date.now()),
        onEvent(event, id) {
          if (ended || signal.aborted || id <= last) return
          // An event without a number, a server's good-bye for example, is no progress; nobody can ask for it again.
          if (id > last) {
            last = id
            tries = 0
          }
          // A proxy may have dropped the header `x-run-id`.
          if (event.eventName === 'run' && !runId) following.onRun((runId = event.payload.runId))
          ended = event.eventName === 'done'
          following.onEvent(event)
        },
      })
    } catch (thrown) {
      fault = toOracleError(thrown)
    } finally {
      clearInterval(watch)
      stopWatching()
      signal.removeEventListener('abort', cut)
      cut()
    }
    if (ended || signal.aborted) return
    if (fault && !mayMend(fault)) throw fault
    if (++tries > timing.retries)
      throw new OracleError(
        'stream_interrupted',
        'The connection was lost, and no try brought it back.',
        {
          cause: fault,
          hint: 'The oracle goes on with its answer; the history has it when it is done.',
        },
      )
    following.onConnection(false)
    await pause(Math.max(fault?.retryAfterMs ?? 0, backoff(tries, timing)), signal)
    if (signal.aborted) return
  }
}

const mayMend = ({ code, status }: OracleError): boolean =>
  code === 'network' ||
  code === 'timeout' ||
  code === 'rate_limited' ||
  (status > 500 && status < 505)

async function readEvents(
  response: Response,
  signal: AbortSignal,
  { onByte, onEvent }: { onByte(): void; onEvent(event: AnyEvent, id: number): void },
): Promise<void> {
  const parser = createParser({
    onEvent({ id, event, data }) {
      if (event === undefined) return
      onEvent({ eventName: event, payload: JSON.parse(data) } as AnyEvent, Number(id))
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
