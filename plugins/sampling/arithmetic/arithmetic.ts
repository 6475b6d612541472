import { agreed, decided, each, tAtMost, zSquared } from './deciding.ts'
import { studentQuantile } from './quantiles.ts'
import {
  ceiling,
  compare,
  exact,
  minus,
  nearest,
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

// The arithmetic of sample sizes, which imports nothing of the runtime. It reads a number as the decimal fraction that
// its text shows. It encloses z and t between two fractions, and returns a size only when both ends give the same size.

/** The parameters of a sample size, with the conventions in which published tables differ. */
export interface Question {
  /** The two-sided confidence, such as 0.95. Not needed beside `z` or `zSquared`. */
  readonly confidence?: Exact
  /** A rounded quantile, for tables that use one: 1.96, or in `zSquared` its square, 3.841. */
  readonly z?: Exact
  readonly zSquared?: Exact
  /** The half-width of the interval: a fraction of the mean, unless `absolute`. */
  readonly precision: Exact
  readonly absolute?: boolean
  /** The size of the population; absent: infinite. */
  readonly population?: Exact
  /** Whether the sample estimates a mean, which needs `sd`, or a proportion, whose deviation follows from the proportion. */
  readonly estimator?: 'mean' | 'proportion'
  readonly mean: Exact
  readonly sd?: Exact
  /** The design effect, by which the variance of the design exceeds that of a simple random sample. */
  readonly effect?: Exact
  /** Whether the standard deviation of the whole population divides by N (the default) or by N - 1. */
  readonly divisor?: 'N' | 'N-1'
  /** How often to apply the finite population correction: once, except to reproduce a source that applies it twice by mistake. */
  readonly corrections?: number
  /** Sizes go up to the next integer (the default) or to the nearest. */
  readonly rounding?: 'up' | 'nearest'
}

/** The answer, with every intermediate value. */
export interface Size {
  readonly z: number
  /** V, the squared coefficient of variation, times the design effect where there is one. */
  readonly relativeVariance: number
  /** n₀, the size for an infinite population. */
  readonly base: number
  /** n, the size with the finite population correction. */
  readonly finite: number
  readonly size: number
}

/** Works out a size: z, base size, finite population correction, and a single rounding at the end. */
export function sampleSize(question: Question): Size {
  const variance = relativeVariance(question)
  const precision = relativePrecision(question)
  return decided((digits) => {
    const square = zSquared(question, digits)
    const base = each(square, (z2) => over(times(z2, variance), squared(precision)))
    const finite = each(base, (n0) => corrected(n0, question))
    const size = agreed(each(finite, (n) => exact(rounded(n, question))))
    return (
      size && {
        z: toRoot(square.low),
        relativeVariance: toNumber(variance),
        base: toNumber(base.low),
        finite: toNumber(finite.low),
        size: toNumber(size),
      }
    )
  })
}

function relativeVariance({ estimator = 'mean', mean, sd = 0, effect }: Question): Rational {
  const centre = exact(mean)
  const variance =
    estimator === 'mean' ? squared(over(exact(sd), centre)) : over(minus(one, centre), centre)
  return effect === undefined ? variance : times(variance, exact(effect))
}

function relativePrecision({ precision, absolute = false, mean }: Question): Rational {
  return absolute ? over(exact(precision), exact(mean)) : exact(precision)
}

function corrected(n0: Rational, question: Question): Rational {
  const { population, divisor = 'N', corrections = 1 } = question
  if (population === undefined || corrections === 0) return n0
  const all = exact(population)
  const rest = divisor === 'N' ? minus(all, one) : all
  const n = over(times(all, n0), plus(rest, n0))
  return corrected(n, { ...question, corrections: corrections - 1 })
}

function rounded(n: Rational, { population, rounding = 'up' }: Question): bigint {
  const whole = rounding === 'up' ? ceiling(n) : nearest(n)
  const least = whole < 1n ? 1n : whole
  const most = population === undefined ? undefined : exact(population).num
  return most !== undefined && most < least ? most : least
}

/** The smallest number of households of which `size` remain after the expected dropout. */
export function withDropout(size: number, dropoutRate: Exact): number {
  return toNumber(exact(ceiling(over(exact(size), minus(one, exact(dropoutRate))))))
}

/** A question to work out with Student's t, which needs the confidence and the population. */
export interface SmallQuestion extends Question {
  readonly confidence: Exact
  readonly population: Exact
}

/**
 * Whether `size` completed answers meet the precision with Student's t:
 * t·√(V/n·(N-n)/(N-1)) ≤ e. The answer is exact.
 */
export function meetsPrecision(size: number, question: SmallQuestion): boolean {
  const all = exact(question.population)
  const n = exact(size)
  const left = minus(all, n)
  if (compare(left, zero) <= 0) return true
  const spread = times(relativeVariance(question), left)
  const allowed = times(squared(relativePrecision(question)), times(n, minus(all, one)))
  return tAtMost(size, question.confidence, spread, allowed)
}

/** The smallest size of at least 2 that meets the precision with Student's t. */
export function studentSize(question: SmallQuestion): number {
  const all = Number(exact(question.population).num)
  // t is larger than z, so the size with z is a lower bound; t falls with the size, so that size's t gives an upper bound.
  let low = Math.max(2, sampleSize(question).size)
  const z = studentQuantile(question.confidence, low - 1).high
  let high = Math.max(low, Math.min(all, sampleSize({ ...question, z }).size))
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (meetsPrecision(middle, question)) high = middle
    else low = middle + 1
  }
  return low
}

/** The results of a monitoring period. */
export interface Finding {
  readonly confidence: Exact
  readonly precision: Exact
  readonly population: Exact
  readonly estimator?: 'mean' | 'proportion'
  /** The mean of the completed answers. */
  readonly mean: Exact
  /** The standard deviation of the completed answers, with the divisor n - 1. A proportion needs none. */
  readonly sd?: Exact
  readonly completes: number
  /** The design effect of clusters. */
  readonly effect?: Exact
}

/** The precision that a monitoring period reached. */
export interface Reliability {
  readonly t: number
  readonly standardError: number
  readonly halfWidth: number
  readonly relHalfWidth: number
  readonly meetsPrecision: boolean
  readonly lowerBoundMean: number
}

/** The interval around a found mean: SE = √((1 - n/N)·s²/n), half-width t·SE. */
export function reliability(finding: Finding): Reliability {
  const { confidence, completes, population } = finding
  const n = exact(completes)
  const mean = exact(finding.mean)
  const variance =
    finding.estimator === 'proportion'
      ? over(times(n, times(mean, minus(one, mean))), minus(n, one))
      : squared(exact(finding.sd ?? 0))
  const open = minus(one, over(n, exact(population)))
  const errorSquared = over(times(times(open, variance), exact(finding.effect ?? 1)), n)
  const t = studentQuantile(confidence, completes - 1).low
  const halfSquared = times(squared(t), errorSquared)
  const half = rootOf(halfSquared)
  const allowed = squared(times(exact(finding.precision), mean))
  return {
    t: toNumber(t),
    standardError: toRoot(errorSquared),
    halfWidth: toNumber(half),
    relHalfWidth: toNumber(over(half, mean)),
    meetsPrecision: tAtMost(completes, confidence, errorSquared, allowed),
    lowerBoundMean: toNumber(minus(mean, half)),
  }
}

/** The emission reductions that remain after the discount for the imprecision of the sample. */
export function discounted(reductions: Exact, discount: Exact): number {
  return toNumber(times(exact(reductions), minus(one, exact(discount))))
}

const rootOf = (value: Rational): Rational => exact(toRoot(value))
