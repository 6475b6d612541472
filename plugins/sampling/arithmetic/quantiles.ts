import { exact, fraction, integerRoot, type Exact, type Rational } from './rational.ts'

/** A real number, given by two fractions between which the number lies. */
export interface Enclosure {
  readonly low: Rational
  readonly high: Rational
}

/** The enclosure of an exact number, both of whose ends are that number. */
export const known = (value: Exact): Enclosure => {
  const at = exact(value)
  return { low: at, high: at }
}

/** How many digits the series are summed with beyond the digits of the result. */
const guard = 30

const kept = new Map<string, Enclosure>()
function remember(key: string, work: () => Enclosure): Enclosure {
  const found = kept.get(key)
  if (found) return found
  const made = work()
  if (kept.size >= 20_000) kept.clear()
  kept.set(key, made)
  return made
}

/**
 * The z with P(|Z| ≤ z) = confidence for a standard normal Z, to `digits` decimal places. The area from 0 to z is
 * the alternating series Σ (-1)^k z^(2k+1) / (2^k k! (2k+1)) / √(2π), summed in integers.
 */
export function normalQuantile(confidence: Exact, digits = 40): Enclosure {
  const { num, den } = checked(confidence)
  return remember(`z ${num}/${den} ${digits}`, () => {
    const scale = 10n ** BigInt(digits + guard)
    const target = (num * integerRoot(2n * pi(scale) * scale)) / (2n * den)
    let z = toFixed(roughQuantile(Number(num) / Number(den)), scale)
    for (let round = 0; round < 30; round++) {
      const slope = Math.exp(-((Number(z) / Number(scale)) ** 2) / 2)
      // A slope in double precision gains fifteen digits in each round, and is cheap to compute.
      const step = ((area(z, scale) - target) * 10n ** 20n) / BigInt(Math.round(slope * 1e20))
      z -= step
      if (step > -1000n && step < 1000n) break
    }
    return around(z, digits)
  })
}

function area(z: bigint, scale: bigint): bigint {
  const square = (z * z) / scale
  let power = z
  let sum = z
  for (let k = 1n; power !== 0n; k++) {
    power = (-power * square) / scale / (2n * k)
    sum += power / (2n * k + 1n)
  }
  return sum
}

/**
 * The t with P(|T| ≤ t) = confidence for Student's T with `df` degrees of freedom, to `digits` decimal places: Newton's
 * method on the incomplete beta function, whose series are summed in integers. The probability is concave in t and
 * the start lies below the root, so every round comes nearer from the same side.
 */
export function studentQuantile(confidence: Exact, df: number, digits = 30): Enclosure {
  if (!Number.isSafeInteger(df) || df < 1)
    throw new RangeError(`${df} is not a number of degrees of freedom`)
  const { num, den } = checked(confidence)
  return remember(`t ${num}/${den} ${df} ${digits}`, () => {
    const scale = 10n ** BigInt(digits + guard)
    const target = (num * scale) / den
    const gamma = gammaRatio(BigInt(df), scale)
    let t = fixedOf(normalQuantile(confidence, digits).low, scale)
    for (let round = 0; round < 200; round++) {
      const { central, factor } = centralArea(t, BigInt(df), gamma, scale)
      const step = ((target - central) * t) / (2n * factor)
      t += step
      // After a step this small the remaining error is far below the last digit of the result.
      if (step < 10n ** BigInt(guard - 5) && step > -(10n ** BigInt(guard - 5))) break
    }
    return around(t, digits)
  })
}

/** P(|T| ≤ t) as `central`, and as `factor` t/2 times the derivative of P. */
function centralArea(t: bigint, df: bigint, gamma: bigint, scale: bigint) {
  const square = t * t
  const y = (square * scale) / (df * scale * scale + square)
  const rest = scale - y
  const root = integerRoot(((y * power(rest, df, scale)) / scale) * scale)
  const factor = (root * gamma) / integerRoot(pi(scale) * scale)
  // Both series are the same beta integral; the series with the smaller argument converges faster.
  if (2n * y <= scale) {
    const sum = series(y, scale, (j) => [df + 1n + 2n * j, 3n + 2n * j])
    return { central: (2n * factor * sum) / scale, factor }
  }
  const sum = series(rest, scale, (j) => [df + 1n + 2n * j, df + 2n + 2n * j])
  return { central: scale - (2n * factor * sum) / scale / df, factor }
}

/** Sums 1 + x·a₀/b₀ + x²·a₀a₁/(b₀b₁) + … */
function series(x: bigint, scale: bigint, ratio: (j: bigint) => [bigint, bigint]): bigint {
  let term = scale
  let sum = scale
  for (let j = 0n; term !== 0n; j++) {
    const [above, below] = ratio(j)
    term = (term * x * above) / (below * scale)
    sum += term
  }
  return sum
}

/**
 * Γ((ν+1)/2) / Γ(ν/2) by Brouncker's continued fraction: four times its square is s + 1²/(2s + 3²/(2s + 5²/(2s + …)))
 * with s = 2ν - 1. Below 200 the recurrence r(ν) = r(ν+2)·ν/(ν+1) leads up to where the fraction converges at once.
 */
function gammaRatio(df: bigint, scale: bigint): bigint {
  let above = 1n
  let below = 1n
  let high = df
  for (; high < 200n; high += 2n) {
    above *= high
    below *= high + 1n
  }
  const s = (2n * high - 1n) * scale
  let tail = 2n * s
  for (let odd = 121n; odd >= 3n; odd -= 2n) tail = 2n * s + (odd * odd * scale * scale) / tail
  const square = s + (scale * scale) / tail
  return (integerRoot(square * scale) * above) / (2n * below)
}

function power(base: bigint, exponent: bigint, scale: bigint): bigint {
  let result = scale
  for (let bits = exponent, square = base; bits > 0n; bits >>= 1n) {
    if (bits & 1n) result = (result * square) / scale
    square = (square * square) / scale
  }
  return result
}

const pis = new Map<bigint, bigint>()

/** π by Machin: 16·atan(1/5) - 4·atan(1/239). */
function pi(scale: bigint): bigint {
  const found = pis.get(scale)
  if (found) return found
  const fine = scale * 1_000_000n
  const made = (16n * inverseTangent(5n, fine) - 4n * inverseTangent(239n, fine)) / 1_000_000n
  pis.set(scale, made)
  return made
}

function inverseTangent(inverse: bigint, scale: bigint): bigint {
  let term = scale / inverse
  let sum = term
  for (let k = 3n; term !== 0n; k += 2n) {
    term = -term / (inverse * inverse)
    sum += term / k
  }
  return sum
}

/** A first approximation of the quantile, to three digits (Abramowitz and Stegun 26.2.23). */
function roughQuantile(confidence: number): number {
  const u = Math.sqrt(-2 * Math.log((1 - confidence) / 2))
  const above = 2.515517 + u * (0.802853 + u * 0.010328)
  return u - above / (1 + u * (1.432788 + u * (0.189269 + u * 0.001308)))
}

function checked(confidence: Exact): Rational {
  const value = exact(confidence)
  // With a confidence above 1 - 1e-9 the alternating series would need more guard digits than `guard`.
  if (value.num <= 0n || (value.den - value.num) * 10n ** 9n < value.den)
    throw new RangeError('the confidence lies outside (0, 1 - 1e-9]')
  return value
}

const toFixed = (value: number, scale: bigint) =>
  (BigInt(Math.round(value * 1e9)) * scale) / 1_000_000_000n
const fixedOf = ({ num, den }: Rational, scale: bigint) => (num * scale) / den

function around(value: bigint, digits: number): Enclosure {
  const middle = value / 10n ** BigInt(guard)
  const scale = 10n ** BigInt(digits)
  return { low: fraction(middle - 1n, scale), high: fraction(middle + 2n, scale) }
}
