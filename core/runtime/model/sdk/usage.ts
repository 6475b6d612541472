import { fieldsIn, isRecord } from '../../base/fields.ts'
import type { ModelUsage } from '../../../plugin.ts'

/**
 * The usage that ends an answer of the AI SDK; undefined where its package counted nothing. Versions 3 and 4 break each
 * count down; some packages still give plain numbers.
 */
export function usageOf(given: unknown): ModelUsage | undefined {
  const usage = fieldsIn(given)
  const read = isRecord(usage.inputTokens) ? usage.inputTokens : { total: usage.inputTokens }
  const wrote = isRecord(usage.outputTokens) ? usage.outputTokens : { total: usage.outputTokens }
  const cached = count(read.cacheRead) ?? count(usage.cachedInputTokens) ?? 0
  const written = count(read.cacheWrite) ?? 0
  const thought = count(wrote.reasoning) ?? count(usage.reasoningTokens) ?? 0
  const input = count(read.total) ?? count(read.noCache)
  const output = count(wrote.total) ?? count(wrote.text)
  if (input === undefined && output === undefined) return undefined
  return {
    // A total without the tokens of the cache would count them for nothing.
    inputTokens: Math.max(input ?? 0, (count(read.noCache) ?? 0) + cached + written),
    outputTokens: Math.max(output ?? 0, thought),
    ...(cached > 0 && { cachedTokens: cached }),
    ...(written > 0 && { cacheWriteTokens: written }),
    ...(thought > 0 && { reasoningTokens: thought }),
  }
}

/** A number of tokens; undefined for what is none. */
function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined
}
