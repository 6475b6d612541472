/** How often the watch looks at the clock. */
const lookMs = 5
/** By how much a timer may be late on a machine that does nothing else. */
const usualMs = 3

/**
 * Watches for how long other processes had the processor when this one would have gone on: what somebody measures by the clock
 * is longer by that much, and it is nobody's fault here. What this process itself computed does not count.
 */
export class HeldUp implements Disposable {
  readonly #gaps: { readonly until: number; readonly ms: number }[] = []
  readonly #timer: NodeJS.Timeout
  #at = Date.now()
  #computed = computed()

  constructor() {
    this.#timer = setInterval(this.#look, lookMs)
  }

  /** For how many milliseconds the process was held up from one time to another, both as `Date.now()` has them. */
  ms(from = 0, to = Infinity): number {
    this.#look()
    let sum = 0
    for (const { until, ms } of this.#gaps)
      sum += Math.max(0, Math.min(until, to) - Math.max(until - ms, from))
    return sum
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #look = (): void => {
    const [now, own] = [Date.now(), computed()]
    const ms = now - this.#at - lookMs - (own - this.#computed)
    if (ms > usualMs) this.#gaps.push({ until: now, ms })
    this.#at = now
    this.#computed = own
  }
}

function computed(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
