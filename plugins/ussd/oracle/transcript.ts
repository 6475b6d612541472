import type { TurnEvent } from '#core'

/** What the agent said in a turn, piece by piece, and how the turn ended. */
export class Transcript {
  #said = ''
  /** Where a tool was called between two pieces of what was said. */
  #breaks: number[] = []
  /** The turn's status once it is over. */
  end: string | undefined

  hear({ event, data }: TurnEvent): void {
    if (event === 'message' && typeof data.content === 'string') this.#said += data.content
    if (event === 'tool_call') this.#breaks.push(this.#said.length)
    // Another server goes on with the turn, from what was kept.
    if (event === 'run' && data.resumed) this.#cut(Number(data.partialLength))
    if (event === 'done') this.end = String(data.status)
  }

  get text(): string {
    const ends = [...new Set(this.#breaks), this.#said.length]
    return ends
      .map((end, index) => this.#said.slice(ends[index - 1] ?? 0, end))
      .join('\n')
      .trim()
  }

  #cut(length: number): void {
    this.#said = this.#said.slice(0, length)
    this.#breaks = this.#breaks.filter((at) => at <= length)
  }
}
