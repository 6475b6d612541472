import type { TurnEvent } from '#core'

/** Collects the text of the agent from the events of a turn, and the status with which the turn ended. */
export class Transcript {
  #said = ''
  /** The lengths of the text at which the agent called a tool. */
  #breaks: number[] = []
  /** The turn's status once it is over. */
  end: string | undefined

  hear({ event, data }: TurnEvent): void {
    if (event === 'message') this.#said += data.content
    if (event === 'tool_call') this.#breaks.push(this.#said.length)
    // Another server resumes the turn from the stored part of the text, so what came after this part is dropped.
    if (event === 'run' && data.resumed) this.#cut(Number(data.partialLength))
    if (event === 'done') this.end = data.status
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
