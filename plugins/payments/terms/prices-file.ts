import { readFileSync } from 'node:fs'
import { faultsOf, RuntimeError } from '#core'
import { z } from 'zod'
import { amountSchema } from './money.ts'

/** A price of 1,000 tokens for the models that a pattern names. */
export interface TokenPrice {
  /** An id of a model; one star stands for any end. */
  readonly model: string
  readonly input: number
  readonly output: number
}

/** The prices that stand in the file at PAYMENTS_PRICES. */
export interface FilePrices {
  readonly tokens: readonly TokenPrice[]
  readonly tools: Readonly<Record<string, number>>
}

const mostBytes = 256 * 1024

const fileSchema = z.strictObject({
  tokens: z
    .array(
      z.strictObject({
        model: z
          .string()
          .max(200)
          .regex(/^[^\s*]+\*?$|^\*$/, 'an id of a model, with at most one star, at its end'),
        input: amountSchema,
        output: amountSchema,
      }),
    )
    .max(1000)
    .default([]),
  tools: z
    .record(z.string().regex(/^[\w-]{1,64}$/, 'the name of a tool'), amountSchema)
    .default({}),
})

/** Reads the file with prices. Throws a sentence that names the variable, the place in the file and the remedy. */
export function readPricesFile(path: string | undefined): FilePrices {
  if (path === undefined) return { tokens: [], tools: {} }
  const fault = (what: string, hint: string) =>
    new RuntimeError('ENV_INVALID', `PAYMENTS_PRICES is "${path}": ${what}`, { hint })
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    throw fault('there is no file that can be read.', 'Name a JSON file, or unset PAYMENTS_PRICES.')
  }
  if (text.length > mostBytes) throw fault('the file is too large.', 'It has at most 256 KiB.')
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    const why = error instanceof Error ? error.message : ''
    throw fault(`the file is not JSON. ${why}`, 'Write { "tokens": [], "tools": {} }.')
  }
  const parsed = fileSchema.safeParse(json)
  if (parsed.success) return parsed.data
  const [first] = faultsOf(parsed.error)
  throw fault(
    `"${first?.path}" is wrong: ${first?.message}.`,
    'Prices are digits in strings: { "tokens": [{ "model": "openai/*", "input": "2", "output": "8" }], "tools": { "name": "500" } }.',
  )
}

/** The first price whose pattern fits the model. */
export const priceOf = (prices: readonly TokenPrice[], model: string): TokenPrice | undefined =>
  prices.find(({ model: pattern }) =>
    pattern.endsWith('*') ? model.startsWith(pattern.slice(0, -1)) : model === pattern,
  )
