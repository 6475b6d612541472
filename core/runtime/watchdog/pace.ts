import { setTimeout as sleep } from 'node:timers/promises'

/** How many rows a step takes at first and at most. */
const rows = { first: 50, most: 500 }
/**
 * A step that took longer than `longMs` is followed by one of half as many rows, `fewest` at least, and a quick one by one of
 * twice as many. A step on SQLite is the work of this process; one on PostgreSQL is mostly the way there and back.
 */
const steps = {
  sqlite: { longMs: 15, quickMs: 5, fewest: 1 },
  postgres: { longMs: 150, quickMs: 50, fewest: 50 },
}
/** How long everybody else has the database between two steps. */
const pauseMs = 5

/** Long work on the database in short steps, between which the event loop turns and others have the database. */
export class Pace {
  readonly #step: (typeof steps)[keyof typeof steps]
  readonly #mayGoOn: () => boolean | Promise<boolean>
  #rows = rows.first

  /** Work under this pace ends early when `mayGoOn`, asked before every step, says no. */
  constructor(
    database: keyof typeof steps,
    mayGoOn: () => boolean | Promise<boolean> = () => true,
  ) {
    this.#step = steps[database]
    this.#mayGoOn = mayGoOn
  }

  /** Calls `work` with a number of rows until it finds fewer than that; resolves to how many it found in all. */
  async through(work: (rows: number) => Promise<number>): Promise<number> {
    const { longMs, quickMs, fewest } = this.#step
    for (let total = 0; ; await sleep(pauseMs)) {
      if (!(await this.#mayGoOn())) return total
      const asked = this.#rows
      const began = performance.now()
      const found = await work(asked)
      const tookMs = performance.now() - began
      if (tookMs > longMs) this.#rows = Math.max(fewest, Math.floor(asked / 2))
      else if (tookMs < quickMs) this.#rows = Math.min(rows.most, asked * 2)
      total += found
      if (found < asked) return total
    }
  }
}
