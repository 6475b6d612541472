/** An exact fraction with a positive denominator. A fraction is not always in lowest terms. */
export interface Rational {
  readonly num: bigint
  readonly den: bigint
}

/** A value that `exact` reads: a number stands for the decimal fraction that its text shows. */
export type Exact = number | bigint | string | Rational

const decimal = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i

/** The exact fraction of a value. 0.1 is one tenth, not the nearest binary fraction. */
export function exact(value: Exact): Rational {
  if (typeof value === 'object') return value
  if (typeof value === 'bigint') return { num: value, den: 1n }
  const [, sign, whole = '', part = '', exponent = '0'] = decimal.exec(String(value)) ?? []
  if (sign === undefined || whole + part === '')
    throw new RangeError(`${String(value)} is not a decimal number`)
  const digits = BigInt(whole + part) * (sign === '-' ? -1n : 1n)
  const power = Number(exponent) - part.length
  return power >= 0
    ? fraction(digits * 10n ** BigInt(power))
    : fraction(digits, 10n ** BigInt(-power))
}

/** `num / den` in lowest terms. */
export function fraction(num: bigint, den = 1n): Rational {
  if (den === 0n) throw new RangeError('a fraction with the denominator 0')
  const divisor = gcd(num < 0n ? -num : num, den < 0n ? -den : den) * (den < 0n ? -1n : 1n)
  return { num: num / divisor, den: den / divisor }
}

function gcd(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b]
  return a
}

/** The number 0. */
export const zero = exact(0n)
/** The number 1. */
export const one = exact(1n)

/** Reducing a fraction costs more than adding or multiplying, so a fraction is reduced only above this denominator. */
const long = 1n << 2048n
const inTerms = (num: bigint, den: bigint): Rational =>
  den > long ? fraction(num, den) : { num, den }

/** The sum of two numbers. */
export const plus = (a: Rational, b: Rational) =>
  inTerms(a.num * b.den + b.num * a.den, a.den * b.den)
/** The difference of two numbers. */
export const minus = (a: Rational, b: Rational) =>
  inTerms(a.num * b.den - b.num * a.den, a.den * b.den)
/** The product of two numbers. */
export const times = (a: Rational, b: Rational) => inTerms(a.num * b.num, a.den * b.den)
/** The quotient of two numbers. */
export const over = (a: Rational, b: Rational) =>
  b.num > 0n ? inTerms(a.num * b.den, a.den * b.num) : fraction(a.num * b.den, a.den * b.num)
/** The square of a number. */
export const squared = (a: Rational) => times(a, a)

/** Negative, 0 or positive, as `a` is below, at or above `b`. */
export function compare(a: Rational, b: Rational): number {
  const left = a.num * b.den
  const right = b.num * a.den
  return left < right ? -1 : left > right ? 1 : 0
}

/** The largest whole number that is not above a number. */
export function floor({ num, den }: Rational): bigint {
  const quotient = num / den
  return num % den < 0n ? quotient - 1n : quotient
}
/** The smallest whole number that is not below a number. */
export const ceiling = ({ num, den }: Rational): bigint => -floor({ num: -num, den })
/** The nearest integer; halves go up. */
export const nearest = ({ num, den }: Rational): bigint => floor(fraction(2n * num + den, 2n * den))

/** The double nearest to a fraction, for people to read. No size is decided by this double. */
export function toNumber({ num, den }: Rational): number {
  const size = num < 0n ? -num : num
  // Enough digits that the text determines the double, wherever the point stands.
  const shift = Math.max(0, 40 + den.toString().length - size.toString().length)
  const digits = (size * 10n ** BigInt(shift)) / den
  return Number(`${num < 0n ? '-' : ''}${digits}e-${shift}`)
}

/** The square root of a fraction as a double, for people to read. */
export function toRoot({ num, den }: Rational): number {
  const scale = 10n ** 60n
  return toNumber(fraction(integerRoot((num * scale * scale) / den), scale))
}

/** The largest integer whose square is not above `value`. */
export function integerRoot(value: bigint): bigint {
  if (value < 2n) return value
  let root = 1n << BigInt((value.toString(2).length + 1) >> 1)
  for (;;) {
    const next = (root + value / root) >> 1n
    if (next >= root) return root
    root = next
  }
}
