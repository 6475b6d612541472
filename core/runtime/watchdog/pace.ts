import { setTimeout as sleep } from 'node:timers/promises'

/** How many rows a step takes at first and at most, and how few where they are slow to go. */
const rows = { first: 50, most: 500, fewest: 1 }
/** A step that took longer than this is followed by one of half as many rows, a quick one by one of twice as many. */
const step = { longMs: 15, quickMs: 5 }
/** How long everybody else has the database between two steps. */
const pauseMs = 5

/** Long work on the database in short steps, between which the event loop turns and others have the database. */
export class Pace {
  readonly #mayGoOn: () => boolean | Promise<boolean>
  #rows = rows.first

  /** Work under this pace ends early when `mayGoOn`, asked before every step, says no. */
  constructor(mayGoOn: () => boolean | Promise<boolean> = () => true) {
    this.#mayGoOn = mayGoOn
  }

  /** Calls `work` with a number of rows until it finds fewer than that; resolves to how many it found in all. */
  async through(work: (rows: number) => Promise<number>): Promise<number> {
    for (let total = 0; ; await sleep(pauseMs)) {
      if (!(await this.#mayGoOn())) return total
      const asked = this.#rows
      const began = performance.now()
      const found = await work(asked)
      const tookMs = performance.now() - began
      if (tookMs > step.longMs) this.#rows = Math.max(rows.fewest, Math.floor(asked / 2))
      else if (tookMs < step.quickMs) this.#rows = Math.min(rows.most, asked * 2)
      total += found
      if (found < asked) return total
    }
  }
}
