/** The waits of a chat, in milliseconds. */
export interface Timing {
  /** One publish in this time while a reply streams. */
  readonly flushMs: number
  /** A stream that brings no byte for so long is taken for dead; the server beats every 15 s. */
  readonly stallMs: number
  /** The first wait before a lost stream is joined again, and the longest. */
  readonly retryMs: number
  readonly maxRetryMs: number
  /** How often in a row without any progress. */
  readonly retries: number
}

export const usualTiming: Timing = {
  flushMs: 50,
  stallMs: 40_000,
  retryMs: 300,
  maxRetryMs: 8_000,
  retries: 14,
}

/** Resolves after a while, or as soon as the page is seen again, is back online, or the signal fires. */
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

/** Grows with every try and is never the same for two clients, which would come back all at once. */
export function backoff(tries: number, { retryMs, maxRetryMs }: Timing): number {
  return Math.min(maxRetryMs, retryMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2)
}
