import { tokenCount, type ModelUsage } from '#core/models'

/** What the provider says of the cost of an answer. A foreign server sends the fields, so each is checked. */
export interface Counted {
  readonly promptTokenCount?: unknown
  readonly toolUsePromptTokenCount?: unknown
  readonly candidatesTokenCount?: unknown
  readonly thoughtsTokenCount?: unknown
  readonly cachedContentTokenCount?: unknown
}

/** Gathers the counts of one answer: many chunks have some, and they only grow. */
export class Counts {
  #prompt: number | undefined
  #tools = 0
  #said = 0
  #thought = 0
  #cached = 0

  /** Takes the counts of one chunk. */
  add(counted: Counted): void {
    const prompt = tokenCount(counted.promptTokenCount)
    if (prompt !== undefined) this.#prompt = Math.max(prompt, this.#prompt ?? 0)
    this.#tools = Math.max(this.#tools, tokenCount(counted.toolUsePromptTokenCount) ?? 0)
    this.#said = Math.max(this.#said, tokenCount(counted.candidatesTokenCount) ?? 0)
    this.#thought = Math.max(this.#thought, tokenCount(counted.thoughtsTokenCount) ?? 0)
    this.#cached = Math.max(this.#cached, tokenCount(counted.cachedContentTokenCount) ?? 0)
  }

  /** The usage; undefined where the provider counted nothing. It counts thoughts beside the words. */
  usage(): ModelUsage | undefined {
    if (this.#prompt === undefined) return undefined
    const input = this.#prompt + this.#tools
    return {
      inputTokens: input,
      outputTokens: this.#said + this.#thought,
      ...(this.#cached > 0 && { cachedTokens: Math.min(this.#cached, input) }),
      ...(this.#thought > 0 && { reasoningTokens: this.#thought }),
    }
  }
}
