import { cleaned } from './words.ts'

const most = { lines: 20, characters: 4_000, rooms: 1_000 }

/** What others said in groups since the oracle last spoke there: other people's words, which go along as such. */
export class Overheard {
  readonly #rooms = new Map<string, string[]>()

  add(roomId: string, name: string, text: string): void {
    const lines = this.#rooms.get(roomId) ?? []
    this.#rooms.delete(roomId)
    // A name of several lines would look like what somebody else said.
    const who = cleaned(name).replace(/\s+/g, ' ').slice(0, 60)
    const line = `${who}: ${text.slice(0, most.characters)}`.toWellFormed()
    const kept = [...lines, line].slice(-most.lines)
    while (kept.length > 1 && kept.join('\n').length > most.characters) kept.shift()
    this.#rooms.set(roomId, kept)
    for (const [oldest] of this.#rooms) {
      if (this.#rooms.size <= most.rooms) break
      this.#rooms.delete(oldest)
    }
  }

  /** What was said; from now on it is known. */
  take(roomId: string): readonly string[] {
    const lines = this.#rooms.get(roomId) ?? []
    this.#rooms.delete(roomId)
    return lines
  }
}
