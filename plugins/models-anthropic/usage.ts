import { tokenCount, type ModelUsage } from '#core/models'

/** What the provider says of the cost of an answer. A foreign server sends the fields, so each is checked. */
export interface Counted {
  readonly input_tokens?: unknown
  readonly cache_creation_input_tokens?: unknown
  readonly cache_read_input_tokens?: unknown
  readonly output_tokens?: unknown
}

/** Gathers the counts of one answer: they come at its beginning and at its end, and only grow. */
export class Counts {
  #input: number | undefined
  #output: number | undefined
  #cached: number | undefined
  #written: number | undefined

  /** Takes the counts of one event. */
  add(counted: Counted): void {
    this.#input = larger(this.#input, counted.input_tokens)
    this.#output = larger(this.#output, counted.output_tokens)
    this.#cached = larger(this.#cached, counted.cache_read_input_tokens)
    this.#written = larger(this.#written, counted.cache_creation_input_tokens)
  }

  /** The usage; undefined where the provider counted nothing. It counts what the cache holds beside the other tokens. */
  usage(): ModelUsage | undefined {
    if (this.#input === undefined || this.#output === undefined) return undefined
    const cached = this.#cached ?? 0
    const written = this.#written ?? 0
    return {
      inputTokens: this.#input + cached + written,
      outputTokens: this.#output,
      ...(cached > 0 && { cachedTokens: cached }),
      ...(written > 0 && { cacheWriteTokens: written }),
    }
  }
}

/** The larger of two counts; what is no number of tokens counts nothing. */
function larger(before: number | undefined, value: unknown): number | undefined {
  const count = tokenCount(value)
  return count === undefined ? before : Math.max(before ?? 0, count)
}
