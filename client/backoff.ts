import type { Timing } from './timing.ts'

/** Grows with every try and is never the same for two clients, which would come back all at once. */
export function backoff(tries: number, { retryMs, maxRetryMs }: Timing): number {
  return Math.min(maxRetryMs, retryMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2)
}
