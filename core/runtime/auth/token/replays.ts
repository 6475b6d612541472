/** Remembers which single-use tokens were used. */
export interface Replays {
  /** True for the first claim of a key, `'used'` for every later one until `expiresAt` (milliseconds). */
  claim(key: string, expiresAt: number): ReplayAnswer | Promise<ReplayAnswer>
}
type ReplayAnswer = 'first' | 'used' | 'full'

const SWEEP_EVERY_MS = 30_000

/**
 * Remembers in memory: enough for one process. At `max` keys the answer is `'full'`, because
 * forgetting one would let it be used again.
 */
export function memoryReplays({ max = 50_000, now = Date.now } = {}): Replays {
  const used = new Map<string, number>()
  let nextSweep = 0

  function sweep(time: number) {
    nextSweep = time + SWEEP_EVERY_MS
    for (const [key, expiresAt] of used) if (expiresAt <= time) used.delete(key)
  }

  return {
    claim(key, expiresAt) {
      const time = now()
      if (time >= nextSweep) sweep(time)
      if (used.has(key)) return 'used'
      if (used.size >= max) return 'full'
      used.set(key, expiresAt)
      return 'first'
    },
  }
}
