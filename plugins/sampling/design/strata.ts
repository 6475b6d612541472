import {
  exact,
  floor,
  fraction,
  minus,
  over,
  plus,
  times,
  zero,
  type Rational,
} from '../arithmetic/rational.ts'

/** A part of the population: its weight, and the most that an allocation may give to it. */
export interface Share {
  readonly weight: Rational
  /** The most that an allocation gives to this part. */
  readonly most?: number
}

/**
 * Shares out a total by the method of largest remainders (Hamilton): every share gets the whole part of weight × total,
 * and the rest goes one by one to the largest remainders. A tie goes to the larger weight, then to the earlier share.
 * A share that has reached its `most` gets no more.
 */
export const allocate = (total: number, shares: readonly Share[]): number[] =>
  allocator(shares)(total)

/** Makes an `allocate` for many totals, which works out once what depends on the shares alone. */
function allocator(shares: readonly Share[]): (total: number) => number[] {
  const common = shares.reduce((product, { weight }) => product * weight.den, 1n)
  const scaled = shares.map(({ weight }) => (weight.num * common) / weight.den)
  const divisor = scaled.reduce(greatestDivisor, 0n) || 1n
  const weights = scaled.map((weight) => weight / divisor)
  const sum = weights.reduce((sum, weight) => sum + weight, 0n) || 1n

  return (total) => {
    const whole = BigInt(total)
    const left = weights.map((weight) => (weight * whole) % sum)
    const sizes = weights.map((weight, index) =>
      Math.min(Number((weight * whole) / sum), shares[index]!.most ?? Infinity),
    )
    let open = total - sizes.reduce((sum, size) => sum + size, 0)
    if (open === 0) return sizes
    const order = sizes
      .map((_, index) => index)
      .sort((a, b) => sign(left[b]! - left[a]!) || sign(weights[b]! - weights[a]!) || a - b)
    while (open > 0) {
      const before = open
      for (const index of order) {
        if (open === 0) break
        if (sizes[index]! >= (shares[index]!.most ?? Infinity)) continue
        sizes[index]!++
        open--
      }
      if (open === before) throw new RangeError(`${total} are more than all strata hold`)
    }
    return sizes
  }
}

const sign = (value: bigint) => (value < 0n ? -1 : value > 0n ? 1 : 0)
const greatestDivisor = (a: bigint, b: bigint): bigint => (b === 0n ? a : greatestDivisor(b, a % b))

/** A share that requires a size of its own. */
export interface Demand extends Share {
  readonly required: number
  readonly most: number
}

/**
 * The first of some candidates, whose totals rise, with an allocation that gives every stratum its required size;
 * undefined when there is none. A growing total can lower a share by the method of largest remainders (the Alabama
 * paradox), so the search tries every candidate and cannot bisect.
 */
export function smallestTotal<T>(
  demands: readonly Demand[],
  candidates: Iterable<T>,
  totalOf: (candidate: T) => number,
): { candidate: T; sizes: number[] } | undefined {
  const sizesOf = allocator(demands)
  for (const candidate of candidates) {
    const sizes = sizesOf(totalOf(candidate))
    if (demands.every(({ required }, index) => sizes[index]! >= required))
      return { candidate, sizes }
  }
  return undefined
}

/**
 * The bounds between which the smallest sufficient total lies. Among k strata, a stratum that gets one more than its whole
 * part has a remainder of at least 1/k, and a stratum with a remainder above (k-1)/k always gets one more.
 */
export function totalBounds(demands: readonly Demand[]): { low: number; high: number } {
  const sum = demands.reduce((sum, { weight }) => plus(sum, weight), zero)
  const k = BigInt(demands.length)
  let low = 0n
  let high = 0n
  for (const { weight, required } of demands) {
    if (required === 0) continue
    const least = plus(exact(required - 1), fraction(1n, k))
    const lowest = ceilingOf(over(times(least, sum), weight))
    const highest = ceilingOf(over(times(exact(required), sum), weight))
    if (lowest > low) low = lowest
    if (highest > high) high = highest
  }
  return { low: Number(low), high: Number(high) }
}

const ceilingOf = (value: Rational): bigint => -floor(minus(zero, value))
