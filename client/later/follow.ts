import { OracleError } from '../core/error.ts'
import type { AnyEvent } from '../core/events.ts'
import { backoff, pause, type Timing } from '../core/timing.ts'
import { mayMend, readStream } from './connection.ts'

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
  /** Hears that the connection is there again, or lost, and when it is tried next. */
  onConnection(connected: boolean, retryAt?: number): void
  readonly signal: AbortSignal
  readonly timing: Timing
  /** The name of a request that its sender tries again, should it not get through. */
  readonly once?: string
}

/**
 * Reads a run to its end, whatever happens to the connection: each event once, in order. Rejects with an error that
 * another try cannot mend.
 */
export async function follow(following: Following): Promise<void> {
  const { signal, timing, once } = following
  let { runId } = following
  let last = 0
  let ended = false
  for (let tries = 0; ;) {
    const open = (connection: AbortSignal) =>
      runId ? following.join(runId, last, connection) : following.begin(connection)
    const fault = await readStream(open, {
      signal,
      timing,
      onResponse(response) {
        runId ??= response.headers.get('x-run-id') ?? undefined
        if (runId) following.onRun(runId)
        following.onConnection(true)
      },
      onEvent({ id, ...read }) {
        const event = read as AnyEvent // the server's own
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
    if (ended || signal.aborted) return
    if (fault && (!mayMend(fault) || (once && !runId))) throw fault
    if (++tries > timing.retries)
      throw new OracleError(
        'stream_interrupted',
        'The connection was lost, and no try brought it back.',
        {
          cause: fault,
          hint: 'The oracle goes on with its answer; the history has it when it is done.',
        },
      )
    const wait = Math.max(fault?.retryAfterMs ?? 0, backoff(tries, timing))
    following.onConnection(false, Date.now() + wait)
    await pause(wait, signal)
    if (signal.aborted) return
    following.onConnection(false)
  }
}
