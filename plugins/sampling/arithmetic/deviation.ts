import {
  compare,
  exact,
  fraction,
  minus,
  over,
  plus,
  squared,
  toNumber,
  toRoot,
  zero,
} from './rational.ts'

/** The deviation of some values with the divisor n - 1, and whether it is the one that a design gives. */
export interface Deviation {
  readonly n: number
  readonly mean: number
  readonly sd: number
  /** Whether the given deviation is that of the values, rounded to as many decimals as it was given with. */
  readonly agrees: boolean
}

/** The most decimals of a value whose deviation is worked out. */
export const mostDecimals = 12

/** Works out the standard deviation of at least two values exactly, and compares a given one with it. */
export function deviationOf(values: readonly number[], given: number): Deviation {
  // Sums of whole numbers stay short, where sums of fractions would have to be reduced again and again.
  const scale = 10n ** BigInt(Math.max(...values.map(decimalsOf)))
  const whole = values.map((value) => {
    const { num, den } = exact(value)
    return (num * scale) / den
  })
  const n = BigInt(whole.length)
  const sum = whole.reduce((sum, value) => sum + value, 0n)
  const squares = whole.reduce((sum, value) => sum + value * value, 0n)
  const variance = fraction(n * squares - sum * sum, n * (n - 1n) * scale * scale)
  // A given 0.31 stands for everything from 0.305 to 0.315.
  const half = over(exact(`1e-${decimalsOf(given)}`), exact(2))
  const low = minus(exact(given), half)
  const isReached = compare(low, zero) <= 0 || compare(squared(low), variance) <= 0
  const isEnough = compare(variance, squared(plus(exact(given), half))) <= 0
  return {
    n: whole.length,
    mean: toNumber(fraction(sum, n * scale)),
    sd: toRoot(variance),
    agrees: isReached && isEnough,
  }
}

/** How many decimals a number is written with. */
export function decimalsOf(value: number): number {
  const [, part = '', exponent = '0'] =
    /^-?\d*(?:\.(\d*))?(?:e([+-]?\d+))?$/.exec(String(value)) ?? []
  return Math.max(0, part.length - Number(exponent))
}
