/** How many measurements a figure is made of: the newest. */
const mostTimes = 500

/** How long something took in this process, the newest measurements. */
export class Times {
  readonly #times: number[] = []
  #next = 0

  add(ms: number): void {
    this.#times[this.#next] = ms
    this.#next = (this.#next + 1) % mostTimes
  }

  /** The middle and the slow end, in milliseconds; both 0 before the first measurement. */
  get figures(): { readonly p50: number; readonly p95: number; readonly count: number } {
    const sorted = [...this.#times].sort((one, other) => one - other)
    const at = (share: number) =>
      Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 100) / 100
    return { p50: at(0.5), p95: at(0.95), count: sorted.length }
  }
}
