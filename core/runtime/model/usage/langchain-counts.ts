import type { ModelUsage } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import { tokenCount } from './counts.ts'

/**
 * Gathers what the chunks of one answer say that it cost: the library adds up the counts of all chunks. Its counts of the
 * whole hold those of the parts; some of its chat models count what the cache holds beside the rest, which shows where
 * the parts are more than the whole.
 */
export class LangChainCounts {
  #input = 0
  #output = 0
  #cached = 0
  #written = 0
  #thought = 0

  /** Takes the counts of one chunk. */
  add(metadata: unknown): void {
    const { input_tokens, output_tokens, input_token_details, output_token_details } =
      fieldsIn(metadata)
    const { cache_read, cache_creation } = fieldsIn(input_token_details)
    this.#input += tokenCount(input_tokens) ?? 0
    this.#output += tokenCount(output_tokens) ?? 0
    this.#cached += tokenCount(cache_read) ?? 0
    this.#written += tokenCount(cache_creation) ?? 0
    this.#thought += tokenCount(fieldsIn(output_token_details).reasoning) ?? 0
  }

  /** The usage; undefined where the chat model counted nothing. */
  usage(): ModelUsage | undefined {
    const parts = this.#cached + this.#written
    const input = parts > this.#input ? this.#input + parts : this.#input
    const output = Math.max(this.#output, this.#thought)
    if (input === 0 && output === 0) return undefined
    return {
      inputTokens: input,
      outputTokens: output,
      ...(this.#cached > 0 && { cachedTokens: this.#cached }),
      ...(this.#written > 0 && { cacheWriteTokens: this.#written }),
      ...(this.#thought > 0 && { reasoningTokens: this.#thought }),
    }
  }
}
