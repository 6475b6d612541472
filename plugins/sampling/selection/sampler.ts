import { hash } from 'node:crypto'

// Consistent sampling without replacement, after Ronald L. Rivest (2018): every id has a ticket, and the ids with the
// smallest tickets are the sample. A ticket depends only on the seed and the id, not on the order or on other ids.

/** A draw with one seed. */
export interface Sampler {
  /** Adds one id to the draw. */
  offer(id: string): void
  /** The ids with the smallest tickets, smallest first. */
  drawn(): string[]
}

/** The ticket of an id: the digits of SHA-256(hex(SHA-256(seed)) + id) as a decimal number, last digit first. */
export function ticketOf(seed: string, id: string): string {
  return `0.${digitsOf(hash('sha256', hash('sha256', seed) + id))}`
}

/** The decimal digits of a hash in reverse order, because the high-order decimal digits of a hash are biased. */
function digitsOf(hex: string): string {
  return [...BigInt(`0x${hex}`).toString().padStart(64, '0')].reverse().join('')
}

interface Drawn {
  readonly first: number
  readonly digits: string
  readonly id: string
}

/** Keeps the `take` smallest tickets of any number of ids, in a heap whose top is the largest of them. */
export function sampler(seed: string, take: number): Sampler {
  const prefix = hash('sha256', seed)
  const heap: Drawn[] = []

  return {
    offer(id) {
      if (take === 0) return
      // A string of 32 characters is the form of a hash that Node makes fastest.
      const hashed = hash('sha256', prefix + id, 'binary')
      const top = heap[0]
      const full = heap.length === take
      // One leading digit rules out most ids, and six nearly all others; neither needs a slow BigInt.
      if (full && top && leadingDigit(hashed) * 100_000 > top.first) return
      const first = leading(hashed)
      if (full && top && first > top.first) return
      const drawn = { first, digits: digitsOf(Buffer.from(hashed, 'binary').toString('hex')), id }
      if (!full) {
        heap.push(drawn)
        rise(heap)
      } else if (top && isBefore(drawn, top)) {
        heap[0] = drawn
        sink(heap)
      }
    },
    drawn: () => [...heap].sort((a, b) => (isBefore(a, b) ? -1 : 1)).map(({ id }) => id),
  }
}

/** The first digit of a ticket, which is the hash's last decimal digit. Every power of 256 above the zeroth ends in 6. */
function leadingDigit(hashed: string): number {
  let sum = 0
  for (let at = 0; at < 31; at++) sum += hashed.charCodeAt(at)
  return (sum * 6 + hashed.charCodeAt(31)) % 10
}

/** The last six decimal digits of 256 to the powers 31 to 0: the factors of the hash's bytes in its last six digits. */
const places = Array.from({ length: 32 }, (_, at) => Number(256n ** BigInt(31 - at) % 1_000_000n))

/** The first six digits of a ticket as a number: the hash's last six decimal digits in reverse order. */
function leading(hashed: string): number {
  let rest = 0
  for (let at = 0; at < 32; at++) rest += hashed.charCodeAt(at) * places[at]!
  let turned = 0
  for (let digit = 0; digit < 6; digit++) {
    turned = turned * 10 + (rest % 10)
    rest = Math.floor(rest / 10)
  }
  return turned
}

function isBefore(a: Drawn, b: Drawn): boolean {
  if (a.digits !== b.digits) return a.digits < b.digits
  return Buffer.compare(Buffer.from(a.id), Buffer.from(b.id)) < 0
}

function rise(heap: Drawn[]): void {
  let at = heap.length - 1
  while (at > 0) {
    const parent = (at - 1) >> 1
    if (isBefore(heap[at]!, heap[parent]!)) return
    swap(heap, at, parent)
    at = parent
  }
}

function sink(heap: Drawn[]): void {
  let at = 0
  for (;;) {
    let largest = at
    for (const child of [2 * at + 1, 2 * at + 2])
      if (child < heap.length && isBefore(heap[largest]!, heap[child]!)) largest = child
    if (largest === at) return
    swap(heap, at, largest)
    at = largest
  }
}

function swap(heap: Drawn[], a: number, b: number): void {
  const kept = heap[a]!
  heap[a] = heap[b]!
  heap[b] = kept
}

/** The seed of the draw from one stratum. */
export const seedOf = (parts: {
  designId: string
  stratum: string
  frameDigest: string
  beaconHex: string
}): string =>
  ['sampling-v1', parts.designId, parts.stratum, parts.frameDigest, parts.beaconHex].join('|')
