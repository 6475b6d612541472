import type { Metrics as Told } from '#core'

/** The upper bounds of the histogram of reply times, in milliseconds. */
const bounds = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 3000]

/** The same figures for `GET /metrics`. */
const toldBy = (metrics: Told) => ({
  sessions: metrics.counter('sessions_total', 'Sessions that began, ended or expired.', [
    'outcome',
  ]),
  dropped: metrics.counter('dropped_total', 'Sessions that expired, by their screen.', ['screen']),
  replies: metrics.histogram(
    'reply_seconds',
    'How long replies to telecom gateways took.',
    [],
    bounds.map((ms) => ms / 1000),
  ),
})

/** The metrics of this server: counts of sessions, reply times, and the screens where people give up. */
export class Metrics {
  #started = 0
  #finished = 0
  readonly #dropped = new Map<string, number>()
  readonly #told: ReturnType<typeof toldBy>
  readonly #replies = Array.from({ length: bounds.length + 1 }, () => 0)

  constructor(metrics: Told) {
    this.#told = toldBy(metrics)
  }

  started(): void {
    this.#started++
    this.#told.sessions.add({ outcome: 'started' })
  }

  finished(): void {
    this.#finished++
    this.#told.sessions.add({ outcome: 'finished' })
  }

  /** Counts a session that expired on a screen. */
  dropped(screen: string): void {
    this.#dropped.set(screen, (this.#dropped.get(screen) ?? 0) + 1)
    this.#told.sessions.add({ outcome: 'expired' })
    this.#told.dropped.add({ screen })
  }

  replied(ms: number): void {
    this.#told.replies.observe(ms / 1000)
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
