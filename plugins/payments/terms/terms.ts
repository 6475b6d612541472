import { RuntimeError } from '#core'
import type { Environment } from '../environment.ts'
import { type Coin, shown, toAmount } from './money.ts'
import { readPricesFile, type TokenPrice } from './prices-file.ts'

/** What turns cost, and how much an account may owe. */
export interface Terms {
  readonly coin: Coin
  /** For a turn that finished. */
  readonly turn: number
  /** For 1,000 tokens, where no line of `tokens` fits the model. */
  readonly input: number
  readonly output: number
  readonly tokens: readonly TokenPrice[]
  /** For a call of a tool whose outcome is done. */
  readonly tools: Readonly<Record<string, number>>
  /** The most that a turn is billed, and what is set aside while it runs. */
  readonly maximum: number
  /** How much an account may owe that has paid before, and a new one. */
  readonly credit: number
  readonly firstCredit: number
  /** Free turns of one DID in a day. */
  readonly freeTurns: number
  /** What an advance claim asks for. */
  readonly advance: number
  /** Whether a turn can cost anything. Where not, turns pay nothing for this plugin. */
  readonly isPriced: boolean
}

/** Reads what turns cost. Throws the fault of the boot where the variables do not fit together. */
export function readTerms(env: Environment): Terms {
  const { tokens, tools } = readPricesFile(env.PAYMENTS_PRICES)
  const turn = env.PAYMENTS_TURN_PRICE
  const [input, output] = [env.PAYMENTS_INPUT_PRICE, env.PAYMENTS_OUTPUT_PRICE]
  const priced = [input, output, ...Object.values(tools)]
  const hasMore = [...priced, ...tokens.flatMap((one) => [one.input, one.output])].some(Boolean)
  const maximum = env.PAYMENTS_MAX_PER_TURN ?? (hasMore ? undefined : turn)
  if (maximum === undefined)
    throw new RuntimeError(
      'ENV_INVALID',
      'PAYMENTS_MAX_PER_TURN is unset, and turns have prices whose sum nobody knows in advance.',
      { hint: 'Set PAYMENTS_MAX_PER_TURN to the most that a turn may cost, in the smallest unit.' },
    )
  if (maximum < turn)
    throw new RuntimeError(
      'ENV_INVALID',
      `PAYMENTS_MAX_PER_TURN is ${maximum}, less than PAYMENTS_TURN_PRICE, which is ${turn}.`,
      { hint: 'Set PAYMENTS_MAX_PER_TURN to at least the price of a turn.' },
    )
  if (maximum === 0 && hasMore)
    throw new RuntimeError('ENV_INVALID', 'PAYMENTS_MAX_PER_TURN is 0, and there are prices.', {
      hint: 'Set PAYMENTS_MAX_PER_TURN to the most that a turn may cost, or take the prices away.',
    })
  const firstCredit = env.PAYMENTS_FIRST_CREDIT
  const advance = env.PAYMENTS_ADVANCE ?? toAmount(BigInt(maximum) * 10n)
  if (advance < maximum)
    throw new RuntimeError(
      'ENV_INVALID',
      `PAYMENTS_ADVANCE is ${advance}, less than the most that a turn costs, which is ${maximum}.`,
      { hint: 'Set it to at least that, or unset it: who pays what is asked can go on.' },
    )
  return {
    coin: {
      denom: env.PAYMENTS_DENOM,
      symbol: env.PAYMENTS_SYMBOL,
      decimals: env.PAYMENTS_DECIMALS,
    },
    turn,
    input,
    output,
    tokens,
    tools,
    maximum,
    credit: env.PAYMENTS_CREDIT ?? firstCredit,
    firstCredit,
    freeTurns: env.PAYMENTS_FREE_TURNS,
    advance: Math.max(advance, 1),
    isPriced: maximum > 0,
  }
}

/** What a turn costs, in words: `0.005 DEV a turn`. Undefined where turns cost nothing. */
export function priceWords({ coin, turn, maximum, isPriced }: Terms): string | undefined {
  if (!isPriced) return undefined
  if (turn === maximum) return `${shown(turn, coin)} a turn`
  return `at most ${shown(maximum, coin)} a turn`
}
