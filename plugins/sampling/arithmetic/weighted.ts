import type { Reliability } from './arithmetic.ts'
import { tAtMost } from './deciding.ts'
import { studentQuantile } from './quantiles.ts'
import {
  compare,
  exact,
  floor,
  minus,
  one,
  over,
  plus,
  squared,
  times,
  toNumber,
  toRoot,
  zero,
  type Exact,
  type Rational,
} from './rational.ts'

/** What a period found in one stratum. */
export interface StratumFinding {
  readonly population: number
  readonly completes: number
  readonly mean: Exact
  /** The standard deviation of the completed answers, with the divisor n - 1. */
  readonly sd: Exact
  readonly effect?: Exact
}

/** The precision that a stratified period reached. */
export interface WeightedReliability extends Reliability {
  /** The mean of the population: Σ W·mean, with the weights W = N of the stratum / N. */
  readonly mean: number
  readonly degreesOfFreedom: number
}

/**
 * The interval around the weighted mean of strata (Cochran 1977, 5.9 and 5.4): SE² = Σ W²·(1 - n/N)·s²/n, and Student's t
 * with the degrees of freedom of Satterthwaite, (Σ g)² / Σ g²/(n - 1), rounded down.
 */
export function weightedReliability(
  strata: readonly StratumFinding[],
  { confidence, precision }: { readonly confidence: Exact; readonly precision: Exact },
): WeightedReliability {
  const all = exact(strata.reduce((sum, { population }) => sum + population, 0))
  let mean = zero
  let variance = zero
  let spread = zero
  for (const stratum of strata) {
    const weight = over(exact(stratum.population), all)
    const part = times(squared(weight), errorSquared(stratum))
    mean = plus(mean, times(weight, exact(stratum.mean)))
    variance = plus(variance, part)
    spread = plus(spread, over(squared(part), exact(stratum.completes - 1)))
  }
  const degreesOfFreedom =
    compare(spread, zero) === 0
      ? strata.reduce((sum, { completes }) => sum + completes - 1, 0)
      : Math.max(1, Number(floor(over(squared(variance), spread))))
  const t = studentQuantile(confidence, degreesOfFreedom).low
  const half = exact(toRoot(times(squared(t), variance)))
  const allowed = squared(times(exact(precision), mean))
  return {
    mean: toNumber(mean),
    degreesOfFreedom,
    t: toNumber(t),
    standardError: toRoot(variance),
    halfWidth: toNumber(half),
    relHalfWidth: toNumber(over(half, mean)),
    meetsPrecision: tAtMost(degreesOfFreedom + 1, confidence, variance, allowed),
    lowerBoundMean: toNumber(minus(mean, half)),
  }
}

function errorSquared({ population, completes, sd, effect = 1 }: StratumFinding): Rational {
  const n = exact(completes)
  const open = minus(one, over(n, exact(population)))
  return over(times(times(open, squared(exact(sd))), exact(effect)), n)
}
