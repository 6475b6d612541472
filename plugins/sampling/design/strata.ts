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

/** A part of the population: its share, and how many it has. */
export interface Share {
  readonly weight: Rational
  /** No allocation gives it more than this. */
  readonly most?: number
}

/**
 * Largest remainder (Hamilton): every share gets the whole part of weight × total, and what is left goes one by one
 * to the largest remainders; ties to the larger weight, then to whoever stands first. A share that is full is passed over.
 */
export const allocate = (total: number, shares: readonly Share[]): number[] =>
  allocator(shares)(total)

/** The same for many totals: what depends on the shares alone is worked out once. */
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

/** A stratum that wants at least so many. */
export interface Demand extends Share {
  readonly required: number
  readonly most: number
}

/**
 * The smallest total, among those that `totals` names in rising order, whose allocation gives every stratum what it
 * requires; undefined when none does. The method of largest remainders can take a seat away as the total grows, so every
 * candidate is looked at; those below the bound cannot do it.
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
 * Between which totals the smallest one lies. Whoever gets a seat beyond the whole part has a remainder of at least 1/k,
 * and whoever has one above (k-1)/k gets it, among k strata.
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
