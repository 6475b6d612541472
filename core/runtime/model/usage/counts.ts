import type { ModelPrice, ModelUsage } from '../../../plugin.ts'

/** A number of tokens that a foreign server or library gave; undefined for what is none. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

/** The parts of a usage that not every provider counts. */
const parts = ['cachedTokens', 'cacheWriteTokens', 'reasoningTokens'] as const

/**
 * A usage as it may be counted with. Counts only grow within an answer: a provider that counts down, or below zero, has
 * counted wrongly. A part is never larger than its whole. Undefined where nothing is known.
 */
export function checkedUsage(told: ModelUsage, before?: ModelUsage): ModelUsage | undefined {
  const input = larger(told.inputTokens, before?.inputTokens)
  const output = larger(told.outputTokens, before?.outputTokens)
  if (input === undefined && output === undefined) return before
  const [inputTokens, outputTokens] = [input ?? 0, output ?? 0]
  const cached = Math.min(larger(told.cachedTokens, before?.cachedTokens) ?? 0, inputTokens)
  const written = larger(told.cacheWriteTokens, before?.cacheWriteTokens) ?? 0
  const writtenAtMost = Math.min(written, inputTokens - cached)
  const thought = larger(told.reasoningTokens, before?.reasoningTokens) ?? 0
  const cost = costIn(told) ?? costIn(before)
  return {
    inputTokens,
    outputTokens,
    ...(cached > 0 && { cachedTokens: cached }),
    ...(writtenAtMost > 0 && { cacheWriteTokens: writtenAtMost }),
    ...(thought > 0 && { reasoningTokens: Math.min(thought, outputTokens) }),
    ...(told.estimated && { estimated: true }),
    ...(cost !== undefined && { cost }),
  }
}

/** Two usages in one: estimated when one of them is, and of unknown cost when that of one of them is unknown. */
export function addedUsage(sum: ModelUsage | undefined, more: ModelUsage): ModelUsage {
  const cost = addedCost(sum ? costIn(sum) : '0', costIn(more))
  const added: { -readonly [Part in (typeof parts)[number]]?: number } = {}
  for (const part of parts) {
    const count = addedTokens(sum?.[part] ?? 0, more[part] ?? 0)
    if (count > 0) added[part] = count
  }
  return {
    inputTokens: addedTokens(sum?.inputTokens ?? 0, more.inputTokens),
    outputTokens: addedTokens(sum?.outputTokens ?? 0, more.outputTokens),
    ...added,
    ...((sum?.estimated || more.estimated) && { estimated: true }),
    cost,
  }
}

/** The sum of two numbers of tokens, which ends at the largest number that is exact. */
export function addedTokens(a: number, b: number): number {
  return Math.min(a + b, Number.MAX_SAFE_INTEGER)
}

/** The sum of two costs; null when one of them is not known. */
export function addedCost(
  a: string | null | undefined,
  b: string | null | undefined,
): string | null {
  return typeof a === 'string' && typeof b === 'string' ? (BigInt(a) + BigInt(b)).toString() : null
}

/** The most dollars that a price or a cost may be: more is a mistake, and could not be counted exactly. */
export const mostDollars = 1_000_000

/** Dollars as whole billionths in digits: a cost as a usage holds it. Undefined for what is no amount of dollars. */
export function billionths(dollars: unknown): string | undefined {
  const isAmount = typeof dollars === 'number' && dollars >= 0 && dollars <= mostDollars
  return isAmount ? String(Math.round(dollars * 1e9)) : undefined
}

/** What a usage costs: by the price where there is one, else as the provider said. Null where nobody knows. */
export function costOf(usage: ModelUsage, price: ModelPrice | undefined): string | null {
  if (!price) return costIn(usage) ?? null
  const { input, output, cachedInput = input, cacheWrite = input } = price
  const { inputTokens, outputTokens, cachedTokens = 0, cacheWriteTokens = 0 } = usage
  const plain = inputTokens - cachedTokens - cacheWriteTokens
  let millionfold = 0n
  for (const [tokens, dollars] of [
    [plain, input],
    [cachedTokens, cachedInput],
    [cacheWriteTokens, cacheWrite],
    [outputTokens, output],
  ] as const) {
    const each = billionths(dollars)
    if (each === undefined || tokenCount(tokens) === undefined) return null
    millionfold += BigInt(tokens) * BigInt(each)
  }
  // A price is one for a million tokens; what is left of a billionth is rounded.
  return ((millionfold + 500_000n) / 1_000_000n).toString()
}

/** The cost that a usage holds; undefined where it holds none, or no whole number in digits. */
function costIn(usage: ModelUsage | undefined): string | undefined {
  const cost = usage?.cost
  return typeof cost === 'string' && /^\d{1,30}$/.test(cost) ? cost : undefined
}

function larger(now: unknown, before: number | undefined): number | undefined {
  const count = tokenCount(now)
  return count === undefined ? before : Math.max(count, before ?? 0)
}
