import { z } from 'zod'
import type { Sums } from './book.ts'
import { daysFromTo } from './day.ts'
import { keptDays } from './tables.ts'

const date = z.iso.date()
const count = z.number()

/** The days that a question is about; by default the newest 30. */
const days = { from: date.optional(), to: date.optional() }

const inOrder = <T extends { readonly from?: string; readonly to?: string }>({ from, to }: T) =>
  !from || !to || (from <= to && daysFromTo(from, to) <= keptDays)
const notInOrder = {
  message: `"from" comes before "to", and no more than ${keptDays} days`,
  path: ['from'],
}

/** The query of a user's own usage. */
export const ownQuery = z
  .strictObject({ ...days, by: z.enum(['day', 'model']).default('day') })
  .refine(inOrder, notInOrder)

/** The query of everybody's usage. */
export const allQuery = z
  .strictObject({
    ...days,
    by: z.enum(['user', 'model', 'day']).default('user'),
    limit: z.coerce.number().int().min(1).max(1000).default(100),
    cursor: z
      .string()
      .regex(/^\d{1,9}$/)
      .optional(),
  })
  .refine(inOrder, notInOrder)

const usage = {
  calls: count,
  inputTokens: count,
  outputTokens: count,
  cachedTokens: count,
  cacheWriteTokens: count,
  reasoningTokens: count,
  estimated: z.literal(true).optional().describe('Some of it was estimated'),
  cost: z
    .string()
    .nullable()
    .describe('Whole billionths of a US dollar; null where some of it is not known'),
}
const total = z.object(usage)
const budget = z.object({ limit: count, used: count, resetsAt: z.string() })

/** What a user reads of the own usage. */
export const ownUsage = z.object({
  from: z.string(),
  to: z.string(),
  rows: z.array(z.object({ day: z.string().optional(), model: z.string().optional(), ...usage })),
  total,
  budget: budget.optional().describe('The allowance of tokens for today'),
  costBudget: budget.optional().describe('The allowance of US dollars for today'),
})

/** What the operator reads of everybody's usage. */
export const allUsage = z.object({
  from: z.string(),
  to: z.string(),
  rows: z.array(
    z.object({
      did: z.string().optional(),
      day: z.string().optional(),
      model: z.string().optional(),
      ...usage,
    }),
  ),
  total,
  cursor: z.string().optional().describe('Asks for the rows that follow; absent after the last'),
})

/** Sums as clients read them. */
export function shown(row: Sums): z.infer<typeof total> {
  return {
    calls: row.calls,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
    cachedTokens: row.cached_tokens,
    cacheWriteTokens: row.cache_write_tokens,
    reasoningTokens: row.reasoning_tokens,
    ...(row.estimated > 0 && { estimated: true as const }),
    cost: row.unpriced > 0 ? null : String(row.cost),
  }
}
