import { CallError, grpc } from '../statuses.ts'

const windowMs = 60_000
/** How many addresses have a count at once; past it the oldest count makes room. */
const mostCounts = 100_000

interface Count {
  left: number
  readonly endsAt: number
}

/**
 * The gateway's own limit of requests a minute from one address, or from the /64 network of an IPv6 address, which one
 * subscriber has to itself. It counts per server: the gateway refuses in its own words, and the kernel's limit cannot.
 */
export class AddressLimit {
  readonly #max: number
  readonly #now: () => number
  /** In the order in which the counts end. */
  readonly #counts = new Map<string, Count>()

  constructor(max: number, now: () => number = () => performance.now()) {
    this.#max = max
    this.#now = now
  }

  /** Counts a request. Returns undefined, or how many seconds the address has to wait. */
  take(address: string): number | undefined {
    const now = this.#now()
    const key = networkOf(address)
    let count = this.#counts.get(key)
    if (count === undefined || count.endsAt <= now) {
      this.#counts.delete(key)
      this.#makeRoom(now)
      count = { left: this.#max, endsAt: now + windowMs }
      this.#counts.set(key, count)
    }
    if (count.left-- > 0) return undefined
    return Math.max(Math.ceil((count.endsAt - now) / 1000), 1)
  }

  /** Drops the counts that have ended, which stand first, and the oldest one where there are too many. */
  #makeRoom(now: number): void {
    for (const [key, { endsAt }] of this.#counts) {
      if (endsAt > now && this.#counts.size < mostCounts) return
      this.#counts.delete(key)
    }
  }
}

/** The refusal of a request that is one too many, as the upstream's own refusals are answered. */
export const tooMany = (seconds: number): CallError =>
  new CallError(
    grpc.resourceExhausted,
    `Too many requests from this address. Try again in ${seconds} seconds.`,
    { headers: { 'Retry-After': String(seconds) } },
  )

function networkOf(address: string): string {
  // What translates IPv4 addresses keeps the whole address, because its first half is the same for everybody.
  if (!address.includes(':') || /^(::ffff:|64:ff9b:)/i.test(address)) return address
  const [head = '', tail] = address.split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array<string>(Math.max(8 - first.length - last.length, 0)).fill('0')
  return [...first, ...zeros, ...last].slice(0, 4).join(':')
}
