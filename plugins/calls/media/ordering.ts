/** A packet of sound: its number of 16 bits, and its bytes. */
export interface Packet {
  readonly number: number
  readonly bytes: Uint8Array
}

/**
 * How many packets a gap is waited for: 60 ms of packets of 20 ms. A jump that is larger begins anew, and so does one so far back that
 * no packet is that late: 10 s.
 */
const waitedFor = 3
const largestGap = 50
const latest = 500
const span = 65_536

/** Puts packets in order. A packet that does not come in time is given as undefined, once. */
export class Ordering {
  readonly #waiting = new Map<number, Uint8Array>()
  #next: number | undefined

  /** What can be heard now that this packet is there: bytes, or undefined for one that is lost. */
  push({ number, bytes }: Packet): (Uint8Array | undefined)[] {
    this.#next ??= number
    const ahead = (number - this.#next + span) % span
    if (span - ahead <= latest) return [] // late, or a repeat
    if (ahead > largestGap) {
      this.#waiting.clear()
      this.#next = (number + 1) % span
      return [bytes]
    }
    this.#waiting.set(number, bytes)
    const ready: (Uint8Array | undefined)[] = []
    while (this.#waiting.size > 0) {
      const found = this.#waiting.get(this.#next)
      if (!found && this.#waiting.size < waitedFor) break
      this.#waiting.delete(this.#next)
      ready.push(found)
      this.#next = (this.#next + 1) % span
    }
    return ready
  }
}
