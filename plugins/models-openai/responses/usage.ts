import { tokenCount, type ModelUsage } from '#core/models'

/** What a server says that an answer cost. */
export interface Counted {
  readonly input_tokens?: unknown
  readonly output_tokens?: unknown
  readonly input_tokens_details?: { readonly cached_tokens?: unknown } | null
  readonly output_tokens_details?: { readonly reasoning_tokens?: unknown } | null
}

/** The usage of an answer; undefined where the server counted nothing. Its counts of the whole hold those of the parts. */
export function usageOf(counted: Counted | null | undefined): ModelUsage | undefined {
  const input = tokenCount(counted?.input_tokens)
  if (input === undefined) return undefined
  const output = tokenCount(counted?.output_tokens) ?? 0
  const cached = Math.min(tokenCount(counted?.input_tokens_details?.cached_tokens) ?? 0, input)
  const thought = Math.min(
    tokenCount(counted?.output_tokens_details?.reasoning_tokens) ?? 0,
    output,
  )
  return {
    inputTokens: input,
    outputTokens: output,
    ...(cached > 0 && { cachedTokens: cached }),
    ...(thought > 0 && { reasoningTokens: thought }),
  }
}
