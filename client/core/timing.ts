/** The waits of a chat, in milliseconds. */
export interface Timing {
  /** A chat publishes once in this time while a reply streams. */
  readonly flushMs: number
  /** A stream that brings no byte for so long is dead; the server sends a heartbeat every 15 s. */
  readonly stallMs: number
  /** The first wait before the chat joins a lost stream again. */
  readonly retryMs: number
  /** The longest wait before a try. */
  readonly maxRetryMs: number
  /** How often in a row the chat tries without any progress before it gives up. */
  readonly retries: number
}

/** The waits of a chat for which an app names no others. */
export const usualTiming: Timing = {
  flushMs: 50,
  stallMs: 40_000,
  retryMs: 300,
  maxRetryMs: 8_000,
  retries: 14,
}

/** Resolves after some time, or as soon as the user sees the page again, the page is online again, or the signal fires. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', over)
      stopListening()
      resolve()
    }
    const timer = setTimeout(over, ms)
    const stopListening = onReturn(over)
    signal.addEventListener('abort', over)
    if (signal.aborted) over()
  })
}

/** Calls back when the page becomes visible or comes online; returns how to stop that. */
export function onReturn(back: () => void): () => void {
  if (typeof document === 'undefined') return () => {}
  const seen = () => document.visibilityState === 'visible' && back()
  document.addEventListener('visibilitychange', seen)
  window.addEventListener('online', back)
  return () => {
    document.removeEventListener('visibilitychange', seen)
    window.removeEventListener('online', back)
  }
}

/** The wait before a try: longer with every try, and random, so that clients who lost a server do not return all at once. */
export function backoff(tries: number, { retryMs, maxRetryMs }: Timing): number {
  return Math.min(maxRetryMs, retryMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2)
}
