import { fieldsIn, isRecord } from '../../base/fields.ts'
import type { ModelUsage } from '../../../plugin.ts'
import { tokenCount } from '../usage/counts.ts'

/**
 * The usage that ends an answer of the AI SDK; undefined where its package counted nothing. Versions 3 and 4 break each
 * count down; some packages still give plain numbers.
 */
export function usageOf(given: unknown): ModelUsage | undefined {
  const usage = fieldsIn(given)
  const read = isRecord(usage.inputTokens) ? usage.inputTokens : { total: usage.inputTokens }
  const wrote = isRecord(usage.outputTokens) ? usage.outputTokens : { total: usage.outputTokens }
  const cached = tokenCount(read.cacheRead) ?? tokenCount(usage.cachedInputTokens) ?? 0
  const written = tokenCount(read.cacheWrite) ?? 0
  const thought = tokenCount(wrote.reasoning) ?? tokenCount(usage.reasoningTokens) ?? 0
  const input = tokenCount(read.total) ?? tokenCount(read.noCache)
  const output = tokenCount(wrote.total) ?? tokenCount(wrote.text)
  if (input === undefined && output === undefined) return undefined
  return {
    // A total without the tokens of the cache would count them for nothing.
    inputTokens: Math.max(input ?? 0, (tokenCount(read.noCache) ?? 0) + cached + written),
    outputTokens: Math.max(output ?? 0, thought),
    ...(cached > 0 && { cachedTokens: cached }),
    ...(written > 0 && { cacheWriteTokens: written }),
    ...(thought > 0 && { reasoningTokens: thought }),
  }
}
