/** A piece of a reply that is said at once, and where it stands in the reply. */
export interface Piece {
  readonly text: string
  readonly from: number
  readonly to: number
}

/** Without the end of a sentence the first piece is so many words; no piece is longer than so many characters. */
const bounds = { firstWords: 12, characters: 600 }
let sentences: Intl.Segmenter | undefined

/** Cuts a reply into sentences while it comes. */
export class Sentences {
  #text = ''
  #given = 0

  get text(): string {
    return this.#text
  }

  /** More of the reply, and the pieces that are whole by it. */
  push(more: string): Piece[] {
    this.#text += more
    return this.#cut(false)
  }

  /** The reply is at its end: the rest of it. */
  end(): Piece[] {
    return this.#cut(true)
  }

  /** The reply goes on from an earlier place, because another process took it over. */
  backTo(length: number): void {
    this.#text = this.#text.slice(0, Math.max(length, 0))
  }

  #cut(isEnd: boolean): Piece[] {
    const pieces: Piece[] = []
    const rest = this.#text.slice(this.#given)
    if (rest === '') return pieces
    sentences ??= new Intl.Segmenter(undefined, { granularity: 'sentence' })
    const found = [...sentences.segment(rest)].map(({ segment }) => segment)
    // The last one may go on: whether a sentence has ended shows when the next one begins.
    const whole = isEnd ? found : found.slice(0, -1)
    for (const sentence of whole) pieces.push(...this.#give(sentence))
    if (isEnd || pieces.length > 0) return pieces
    const last = found.at(-1) ?? ''
    if (this.#given === 0 && last.trim().split(/\s+/).length > bounds.firstWords)
      return this.#give(firstWords(last, bounds.firstWords))
    if (last.length > bounds.characters) return this.#give(last.slice(0, bounds.characters))
    return pieces
  }

  #give(sentence: string): Piece[] {
    const pieces: Piece[] = []
    for (let at = 0; at < sentence.length; at += bounds.characters) {
      const text = sentence.slice(at, at + bounds.characters)
      const from = this.#given
      this.#given += text.length
      pieces.push({ text, from, to: this.#given })
    }
    return pieces
  }
}

function firstWords(text: string, count: number): string {
  const words = /(?:\s*\S+){1,12}\s+/.exec(text)?.[0]
  return words ?? text.slice(0, count * 8)
}
