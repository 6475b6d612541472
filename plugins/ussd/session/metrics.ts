/** The upper bounds of the histogram of reply times, in milliseconds. */
const bounds = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 3000]

/** The metrics of this server: counts of sessions, reply times, and the screens where people give up. */
export class Metrics {
  #started = 0
  #finished = 0
  readonly #dropped = new Map<string, number>()
  readonly #replies = Array.from({ length: bounds.length + 1 }, () => 0)

  started(): void {
    this.#started++
  }

  finished(): void {
    this.#finished++
  }

  /** Counts a session that expired on a screen. */
  dropped(screen: string): void {
    this.#dropped.set(screen, (this.#dropped.get(screen) ?? 0) + 1)
  }

  replied(ms: number): void {
    const slot = bounds.findIndex((bound) => ms <= bound)
    this.#replies[slot < 0 ? bounds.length : slot]!++
  }

  read() {
    return {
      sessions: {
        started: this.#started,
        finished: this.#finished,
        expired: [...this.#dropped.values()].reduce((sum, count) => sum + count, 0),
      },
      droppedAt: Object.fromEntries([...this.#dropped].sort(([, a], [, b]) => b - a)),
      replies: this.#replies.map((count, slot) => ({ upToMs: bounds[slot] ?? null, count })),
    }
  }
}
