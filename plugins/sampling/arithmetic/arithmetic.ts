import { known, normalQuantile, studentQuantile, type Enclosure } from './quantiles.ts'
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

// The arithmetic of sample sizes, without any knowledge of the runtime. Numbers are taken as the decimals they
// are written as; z and t are enclosed between fractions, and a size is given only when both ends agree on it.

/** The question a sample must answer, with the conventions that published tables differ in. */
export interface Question {
  /** Two-sided, such as 0.95. Not needed where `z` or `zSquared` says it. */
  readonly confidence?: Exact
  /** A rounded quantile, where a table has one: 1.96, or its square, 3.841. */
  readonly z?: Exact
  readonly zSquared?: Exact
  /** The half-width of the interval: a fraction of the mean, unless `absolute`. */
  readonly precision: Exact
  readonly absolute?: boolean
  /** Without one the population is taken as infinite. */
  readonly population?: Exact
  /** A mean with its standard deviation, or a proportion, which brings its own. */
  readonly estimator?: 'mean' | 'proportion'
  readonly mean: Exact
  readonly sd?: Exact
  /** Whether the standard deviation of the whole population divides by N (the default) or by N - 1. */
  readonly divisor?: 'N' | 'N-1'
  /** How often the population's correction is applied: once, unless a source does so again by mistake. */
  readonly corrections?: number
  /** Sizes go up to the next integer (the default) or to the nearest. */
  readonly rounding?: 'up' | 'nearest'
}

/** The answer, with every intermediate value. */
export interface Size {
  readonly z: number
  /** V, the squared coefficient of variation. */
  readonly relativeVariance: number
  /** n₀, for an infinite population. */
  readonly base: number
  /** n, with the population's correction. */
  readonly finite: number
  readonly size: number
}

/** The size for a question: z, base, finite population, and one rounding at the end. */
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

function relativeVariance({ estimator = 'mean', mean, sd = 0 }: Question): Rational {
  const centre = exact(mean)
  return estimator === 'mean' ? squared(over(exact(sd), centre)) : over(minus(one, centre), centre)
}

function relativePrecision({ precision, absolute = false, mean }: Question): Rational {
  return absolute ? over(exact(precision), exact(mean)) : exact(precision)
}

function zSquared({ confidence, z, zSquared }: Question, digits: number): Enclosure {
  if (zSquared !== undefined) return known(zSquared)
  if (z !== undefined) return known(squared(exact(z)))
  if (confidence === undefined) throw new RangeError('a question without confidence, z or zSquared')
  return each(normalQuantile(confidence, digits), squared)
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

/** The smallest number that still leaves `size` after so many drop out. */
export function withDropout(size: number, dropoutRate: Exact): number {
  return toNumber(exact(ceiling(over(exact(size), minus(one, exact(dropoutRate))))))
}

/** What Student's t is asked about. */
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

/** Whether t²·a ≤ b, with n - 1 degrees of freedom. */
function tAtMost(size: number, confidence: Exact, a: Rational, b: Rational): boolean {
  return decided((digits) => {
    const t = studentQuantile(confidence, size - 1, digits)
    const [low, high] = [t.low, t.high].map((end) => compare(times(squared(end), a), b) <= 0)
    // Sixty equal digits are equality, which meets it.
    return low === high || digits > 60 ? { met: low ?? false } : undefined
  }).met
}

/** The smallest size of at least 2 that meets the precision with Student's t. */
export function studentSize(question: SmallQuestion): number {
  const all = Number(exact(question.population).num)
  // With t above z the answer is no smaller than with z, and no larger than with the t of that many.
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

/** What a monitoring period found. */
export interface Finding {
  readonly confidence: Exact
  readonly precision: Exact
  readonly population: Exact
  readonly estimator?: 'mean' | 'proportion'
  /** Of the completed answers. */
  readonly mean: Exact
  /** Of the completed answers, with the divisor n - 1. A proportion brings its own. */
  readonly sd?: Exact
  readonly completes: number
}

/** How well a finding is known. */
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
  const errorSquared = over(times(minus(one, over(n, exact(population))), variance), n)
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

/** What remains of `reductions` when the part that the sample cannot vouch for is left out. */
export function discounted(reductions: Exact, discount: Exact): number {
  return toNumber(times(exact(reductions), minus(one, exact(discount))))
}

const rootOf = (value: Rational): Rational => exact(toRoot(value))

const each = ({ low, high }: Enclosure, f: (end: Rational) => Rational): Enclosure => ({
  low: f(low),
  high: f(high),
})

/** The value on which both ends agree. */
const agreed = ({ low, high }: Enclosure): Rational | undefined =>
  compare(low, high) === 0 ? low : undefined

/** Works with more and more digits until there is an answer. z is irrational, so there is one. */
function decided<T>(attempt: (digits: number) => T | undefined): T {
  for (let digits = 30; digits <= 960; digits *= 2) {
    const answer = attempt(digits)
    if (answer !== undefined) return answer
  }
  throw new RangeError('no number of digits decides this size')
}
