/** Remembers which single-use tokens were used. */
export interface Replays {
  /** True for the first claim of a key, `'used'` for every later one until `expiresAt` (milliseconds). */
  claim(key: string, expiresAt: number): ReplayAnswer | Promise<ReplayAnswer>
}
/** What a claim of a single-use token comes to. */
export type ReplayAnswer = 'first' | 'used' | 'full'

const sweepEveryMs = 30_000

/**
 * Remembers used tokens in memory, which is enough for one process. At `max` keys the answer is `'full'`, because a
 * forgotten token could be used again.
 */
export class MemoryReplays implements Replays {
  readonly #used = new Map<string, number>()
  readonly #max: number
  readonly #now: () => number
  #nextSweep = 0

  constructor({ max = 50_000, now = Date.now } = {}) {
    this.#max = max
    this.#now = now
  }

  claim(key: string, expiresAt: number): ReplayAnswer {
    const time = this.#now()
    if (time >= this.#nextSweep) this.#sweep(time)
    if (this.#used.has(key)) return 'used'
    if (this.#used.size >= this.#max) return 'full'
    this.#used.set(key, expiresAt)
    return 'first'
  }

  #sweep(time: number): void {
    this.#nextSweep = time + sweepEveryMs
    for (const [key, expiresAt] of this.#used) if (expiresAt <= time) this.#used.delete(key)
  }
}
