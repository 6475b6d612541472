import { RuntimeError } from '#core'
import type { Context } from 'koa'

/** How long a turn goes on that nobody reads, unless the request says otherwise. */
const usualMs = 30_000
const longestSeconds = 3_600

/** For how long a turn may be alone: 0 ends with its connection; undefined goes on to its own end. */
export function aloneOf(koa: Context): number | undefined {
  const said = koa.get('X-Alone').trim()
  if (said === '') return usualMs
  if (said === 'never') return undefined
  const seconds = /^\d{1,5}$/u.test(said) ? Number(said) : NaN
  if (seconds <= longestSeconds) return seconds * 1_000
  throw new RuntimeError('INVALID_INPUT', 'The header X-Alone is a number of seconds, or never.', {
    hint: `0 to ${longestSeconds}.`,
  })
}

/** Fires when the client is gone. A server that closes lets others go on with the turn. */
export function leavingOf(signal: AbortSignal): AbortSignal {
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
