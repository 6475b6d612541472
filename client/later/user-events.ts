import type { OracleError } from '../core/error.ts'
import type { UserEvent } from '../core/notices.ts'
import { backoff, pause, type Timing } from '../core/timing.ts'
import { mayMend, readStream } from './connection.ts'

/** The events of a user to read, and whom to tell what they say. */
export interface ListeningToUser {
  /** Asks for the events after a notice, by its number; 0 while the stream has told of none. */
  open(after: number, signal: AbortSignal): Promise<Response>
  onEvent(event: UserEvent): void
  /** Hears that the connection is lost, and by which fault, or there again. */
  onConnection(isConnected: boolean, fault?: OracleError): void
  readonly signal: AbortSignal
  readonly timing: Timing
}

/**
 * Reads a user's events until the signal fires, whatever happens to the connection: each notice once, in order. Rejects
 * with an error that another try cannot mend.
 */
export async function followUser(listening: ListeningToUser): Promise<void> {
  const { signal, timing } = listening
  let last = 0
  for (let tries = 0; !signal.aborted;) {
    const fault = await readStream((connection) => listening.open(last, connection), {
      signal,
      timing,
      onResponse: () => listening.onConnection(true),
      onEvent({ id, ...read }) {
        const event = read as UserEvent // the server's own
        if (signal.aborted) return
        tries = 0
        // The server says where it goes on, which may be before a number that it does not know any more.
        if (event.eventName === 'connected') last = event.payload.id
        if (event.eventName === 'notice') {
          if (id <= last) return
          last = id
        }
        listening.onEvent(event)
      },
    })
    if (signal.aborted) return
    if (fault && !mayMend(fault)) throw fault
    listening.onConnection(false, fault)
    await pause(Math.max(fault?.retryAfterMs ?? 0, backoff(++tries, timing)), signal)
  }
}
