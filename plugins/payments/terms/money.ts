import { RuntimeError } from '#core'
import { z } from 'zod'

// Money is a whole number of the smallest unit of the denomination, at most 2^53 - 1: a safe integer inside, digits in a
// string on the wire. Nothing here ever has a fraction.

const says = 'a whole number of the smallest unit, as digits in a string'

/** An amount as it stands on the wire, zero included. */
export const amountSchema = z
  .string(says)
  .regex(/^(0|[1-9]\d{0,15})$/, says)
  .transform(Number)
  .refine(Number.isSafeInteger, `at most ${Number.MAX_SAFE_INTEGER}`)

/** An amount as it stands on the wire, of at least one. */
export const positiveAmount = amountSchema.refine((amount) => amount > 0, 'more than zero')

/** The sum of amounts. Throws rather than lose a unit. */
export function total(...amounts: readonly number[]): number {
  const sum = amounts.reduce((all, amount) => all + BigInt(amount), 0n)
  return toAmount(sum)
}

/** A big whole number as an amount. Throws when the number is beyond what an account can hold. */
export function toAmount(value: bigint): number {
  const amount = Number(value)
  if (Number.isSafeInteger(amount)) return amount
  throw new RuntimeError('UNPROCESSABLE', 'An amount would be larger than an account can hold.', {
    hint: `At most ${Number.MAX_SAFE_INTEGER} of the smallest unit can stand in an account.`,
  })
}

/** How amounts are shown to people. */
export interface Coin {
  /** The smallest unit, as the ledger names it. */
  readonly denom: string
  /** What people call the coin. */
  readonly symbol: string
  /** How many decimals a coin has. */
  readonly decimals: number
}

/** An amount for people: `0.005 DEV`. */
export const shown = (amount: number, { symbol, decimals }: Coin): string =>
  `${inCoins(amount, decimals)} ${symbol}`

/** An amount in whole coins, without zeros at its end: `0.005`. */
export function inCoins(amount: number, decimals: number): string {
  const digits = String(Math.abs(amount)).padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const rest = digits.slice(digits.length - decimals).replace(/0+$/, '')
  return `${amount < 0 ? '-' : ''}${whole}${rest && `.${rest}`}`
}
