import { RuntimeError } from '../../../errors.ts'
import type { Attendance, Reading } from '../../../plugin.ts'

/** How long a turn goes on that nobody reads, unless the request says otherwise. */
const usualMs = 30_000
const longestSeconds = 3_600

/**
 * What a turn of a client is started with, so that it ends when nobody reads it any more: spread it into `turns.start`, and hand
 * its `reader` and `signal` to `turns.resume`. The client says by the header `X-Alone` for how many seconds the turn may be
 * alone: `0` ends it with the connection, `never` lets it go on to its own end. A server that closes ends no turn: another one
 * goes on with it.
 */
export function attended({ signal, koa, stopAfterMs = usualMs }: Reading): Attendance {
  const alone = koa ? saidIn(koa.get('X-Alone').trim(), stopAfterMs) : stopAfterMs
  const reader = leavingOf(signal)
  if (alone === undefined) return { reader }
  return alone === 0 ? { reader, signal: reader } : { reader, whenAlone: { stopAfterMs: alone } }
}

/** What the header says, in milliseconds; undefined for a turn that goes on to its own end. */
function saidIn(header: string, unsaidMs: number): number | undefined {
  if (header === '') return unsaidMs
  if (header === 'never') return undefined
  const seconds = /^\d{1,5}$/u.test(header) ? Number(header) : NaN
  if (seconds <= longestSeconds) return seconds * 1_000
  throw new RuntimeError('INVALID_INPUT', 'The header X-Alone is a number of seconds, or never.', {
    hint: `0 to ${longestSeconds}.`,
  })
}

/** Fires when the client is gone, and not when the server closes. */
function leavingOf(signal: AbortSignal): AbortSignal {
  const leaving = new AbortController()
  const look = () => {
    const { reason } = signal
    const isClosing = reason instanceof RuntimeError && reason.status >= 500
    if (!isClosing) leaving.abort()
  }
  if (signal.aborted) look()
  else signal.addEventListener('abort', look, { once: true })
  return leaving.signal
}
