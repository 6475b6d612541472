import { known, normalQuantile, studentQuantile, type Enclosure } from './quantiles.ts'
import { compare, exact, squared, times, type Exact, type Rational } from './rational.ts'

// z and t are irrational: every question is put to both ends of an interval around them, and answered when both agree.

/** Works out a function at both ends of an enclosure. */
export const each = ({ low, high }: Enclosure, f: (end: Rational) => Rational): Enclosure => ({
  low: f(low),
  high: f(high),
})

/** The value of an enclosure whose two ends are equal; undefined otherwise. */
export const agreed = ({ low, high }: Enclosure): Rational | undefined =>
  compare(low, high) === 0 ? low : undefined

/** Calls `attempt` with more and more digits until it returns an answer. z is irrational, so enough digits always decide. */
export function decided<T>(attempt: (digits: number) => T | undefined): T {
  for (let digits = 30; digits <= 960; digits *= 2) {
    const answer = attempt(digits)
    if (answer !== undefined) return answer
  }
  throw new RangeError('no number of digits decides this size')
}

/** Whether t²·a ≤ b, with `size` - 1 degrees of freedom. */
export function tAtMost(size: number, confidence: Exact, a: Rational, b: Rational): boolean {
  return decided((digits) => {
    const t = studentQuantile(confidence, size - 1, digits)
    const [low, high] = [t.low, t.high].map((end) => compare(times(squared(end), a), b) <= 0)
    // When sixty digits do not separate the two sides, they are equal, and equality meets the precision.
    return low === high || digits > 60 ? { met: low ?? false } : undefined
  }).met
}

/** Where a quantile comes from: a confidence, or z as a table rounds it. */
export interface Quantile {
  readonly confidence?: Exact
  readonly z?: Exact
  readonly zSquared?: Exact
}

/** z², of a confidence or of a rounded quantile. */
export function zSquared({ confidence, z, zSquared }: Quantile, digits: number): Enclosure {
  if (zSquared !== undefined) return known(zSquared)
  if (z !== undefined) return known(squared(exact(z)))
  if (confidence === undefined) throw new RangeError('a question without confidence, z or zSquared')
  return each(normalQuantile(confidence, digits), squared)
}
