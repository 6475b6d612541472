import { billionths, tokenCount, type ModelUsage } from '#core/models'

/** What a chunk says of its cost. A foreign server sends the fields, so each is checked. */
export interface Counted {
  readonly prompt_tokens?: unknown
  readonly completion_tokens?: unknown
  readonly total_tokens?: unknown
  readonly prompt_cache_hit_tokens?: unknown
  readonly prompt_tokens_details?: {
    readonly cached_tokens?: unknown
    readonly cache_write_tokens?: unknown
  } | null
  readonly completion_tokens_details?: { readonly reasoning_tokens?: unknown } | null
  readonly cost?: unknown
}

/** The usage with what a chunk says. Counts only grow: a server that counts down has counted wrongly. */
export function usageOf(counted: Counted, before?: ModelUsage): ModelUsage | undefined {
  const input = tokenCount(counted.prompt_tokens)
  if (input === undefined) return before
  const cached =
    tokenCount(counted.prompt_tokens_details?.cached_tokens) ??
    tokenCount(counted.prompt_cache_hit_tokens)
  const written = tokenCount(counted.prompt_tokens_details?.cache_write_tokens)
  const reasoning = tokenCount(counted.completion_tokens_details?.reasoning_tokens)
  const said = tokenCount(counted.completion_tokens) ?? 0
  // Some servers count what was thought beside what was said; then only the total holds both.
  const isBeside = reasoning !== undefined && counted.total_tokens === input + said + reasoning
  const output = isBeside ? said + reasoning : said
  const cost = billionths(counted.cost)
  const most = (now: number | undefined, then: number | undefined) =>
    now === undefined ? then : Math.max(now, then ?? 0)
  return {
    ...before,
    inputTokens: most(input, before?.inputTokens) ?? 0,
    outputTokens: most(output, before?.outputTokens) ?? 0,
    ...(cached && { cachedTokens: most(cached, before?.cachedTokens) }),
    ...(written && { cacheWriteTokens: most(written, before?.cacheWriteTokens) }),
    ...(reasoning && { reasoningTokens: most(reasoning, before?.reasoningTokens) }),
    ...(cost !== undefined && { cost: larger(cost, before?.cost) }),
  }
}

/** The larger of two costs in digits. */
const larger = (now: string, then: string | null | undefined): string =>
  then && BigInt(then) > BigInt(now) ? then : now
