import { z } from 'zod'

const digits = 'a whole number of the smallest unit, in digits'
const amount = z
  .string(digits)
  .regex(/^(0|[1-9]\d{0,15})$/, digits)
  .transform(Number)
  .refine(Number.isSafeInteger, `at most ${Number.MAX_SAFE_INTEGER}`)
const count = (most: number) =>
  z
    .string()
    .regex(/^\d{1,7}$/, 'a whole number in digits')
    .transform(Number)
    .refine((value) => value <= most, `at most ${most}`)
const onOff = z.enum(['on', 'off'], 'on or off').transform((word) => word === 'on')

const evmAddress = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/, 'an address: 0x and 40 hexadecimal digits')

/** The variables of payments. */
export const environment = {
  PAYMENTS_TURN_PRICE: amount.default(0).describe('For a turn that finished'),
  PAYMENTS_INPUT_PRICE: amount.default(0).describe('For 1,000 tokens that the model reads'),
  PAYMENTS_OUTPUT_PRICE: amount.default(0).describe('For 1,000 tokens that the model writes'),
  PAYMENTS_PRICES: z
    .string()
    .optional()
    .describe('Path of a JSON file with prices by model and by tool'),
  PAYMENTS_MAX_PER_TURN: amount
    .optional()
    .describe('The most that a turn is billed; by default the turn price where it is the only one'),
  PAYMENTS_CREDIT: amount
    .optional()
    .describe('How much an account that has paid before may owe; by default the first credit'),
  PAYMENTS_FIRST_CREDIT: amount.default(0).describe('How much a new account may owe'),
  PAYMENTS_FREE_TURNS: count(1_000_000).default(0).describe('Free turns of one DID in a day (UTC)'),
  PAYMENTS_ADVANCE: amount
    .optional()
    .describe('What an advance claim asks for; by default ten times the most that a turn costs'),
  PAYMENTS_DENOM: z
    .string()
    .regex(/^[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$/, 'a denomination of the ledger')
    .default('udev')
    .describe('The smallest unit, as the ledger names it'),
  PAYMENTS_SYMBOL: z
    .string()
    .regex(/^[A-Za-z0-9]{1,10}$/, 'one to ten letters and digits')
    .default('DEV')
    .describe('What people call the coin'),
  PAYMENTS_DECIMALS: count(15).default(6).describe('How many decimals a coin has'),
  PAYMENTS_LEDGER: z
    .string()
    .regex(/^[^\s/]+:\d{1,5}$/, 'host:port')
    .optional()
    .describe(
      'gRPC address of a node of the ledger; unset outside production: a ledger in the process',
    ),
  PAYMENTS_LEDGER_TLS: onOff.default(true).describe('off: the node is asked without TLS'),
  PAYMENTS_CHAIN_ID: z
    .string()
    .regex(/^[\w.-]{1,50}$/, 'the id of a chain')
    .default('dev-1')
    .describe('The chain whose transactions count'),
  PAYMENTS_ADDRESS_PREFIX: z
    .string()
    .regex(/^[a-z]{1,20}$/, 'lower-case letters')
    .default('dev')
    .describe('What addresses of the ledger begin with'),
  PAYMENTS_ADDRESS: z
    .string()
    .max(100)
    .optional()
    .describe(
      'The account on the ledger that receives payments, where it is not that of the mnemonic',
    ),
  PAYMENTS_MNEMONIC: z
    .string()
    .regex(/^\s*[a-z]+(\s+[a-z]+){11,23}\s*$/, '12 to 24 words')
    .optional()
    .meta({
      secret: true,
      description: 'The key of the oracle on the ledger; without it the oracle makes no contracts',
    }),
  PAYMENTS_GAS_PRICE: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,6})?$/, 'a number in digits, such as 0.025')
    .default('0')
    .transform(Number)
    .describe('What the oracle pays for one unit of gas, in the smallest unit'),
  PAYMENTS_X402_FACILITATOR: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('The facilitator of payments by signature (x402); unset: there are none'),
  PAYMENTS_X402_AUTH: z
    .string()
    .min(1)
    .optional()
    .meta({ secret: true, description: 'The Authorization header for the facilitator' }),
  PAYMENTS_X402_PAY_TO: evmAddress
    .optional()
    .describe('The account that payments by signature go to; required with the facilitator'),
  PAYMENTS_X402_NETWORK: z
    .string()
    .regex(/^eip155:\d{1,20}$/, 'a network such as eip155:8453')
    .default('eip155:84532')
    .describe('The network of payments by signature'),
  PAYMENTS_X402_ASSET: evmAddress
    .optional()
    .describe('The token of payments by signature; required with the facilitator'),
  PAYMENTS_X402_ASSET_NAME: z
    .string()
    .min(1)
    .max(100)
    .default('USDC')
    .describe('The name of the token, as its contract signs by it'),
  PAYMENTS_X402_ASSET_VERSION: z
    .string()
    .min(1)
    .max(20)
    .default('2')
    .describe('The version of the token, as its contract signs by it'),
  PAYMENTS_X402_RATE: z
    .string()
    .regex(/^(?=.*[1-9])\d{1,12}(\.\d{1,12})?$/, 'a number above 0, such as 0.5')
    .default('1')
    .describe('Units of the token for one of the smallest unit here; the sum is rounded up'),
}

/** The values of the variables after the schema has parsed them. */
export type Environment = {
  readonly [Name in keyof typeof environment]: z.output<(typeof environment)[Name]>
}
