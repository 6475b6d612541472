import type { ModelUsage } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import { tokenCount } from './counts.ts'

/**
 * Gathers what the chunks of one answer say that it cost: the library adds up the counts of all chunks. Its counts of the
 * whole hold those of the parts; some of its chat models count what the cache holds beside the rest, which shows where
 * the parts are more than the whole.
 *
 * Where an answer opens with a chunk that is the message without its content, as some providers send it, each count is the one
 * so far: adding them up would count what the opening said a second time.
 */
export class LangChainCounts {
  #input = 0
  #output = 0
  #cached = 0
  #written = 0
  #thought = 0
  #isSoFar = false

  /** Takes the counts of one chunk; `extra` is what else the library found in it. */
  add(metadata: unknown, extra?: unknown): void {
    const { type, role } = fieldsIn(extra)
    this.#isSoFar ||= type === 'message' && role === 'assistant'
    const { input_tokens, output_tokens, input_token_details, output_token_details } =
      fieldsIn(metadata)
    const { cache_read, cache_creation } = fieldsIn(input_token_details)
    this.#input = this.#with(this.#input, input_tokens)
    this.#output = this.#with(this.#output, output_tokens)
    this.#cached = this.#with(this.#cached, cache_read)
    this.#written = this.#with(this.#written, cache_creation)
    this.#thought = this.#with(this.#thought, fieldsIn(output_token_details).reasoning)
  }

  #with(before: number, count: unknown): number {
    const now = tokenCount(count) ?? 0
    return this.#isSoFar ? Math.max(before, now) : before + now
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
