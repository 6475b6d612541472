import { parseBlocks } from './blocks.ts'
import type { Block, References } from './tree.ts'

/** What a text that grows has come to. A block that did not change is the same object as before. */
export interface Document {
  readonly blocks: readonly Block[]
  readonly references: References
}

/** Reads a text that grows: of what was read before, the last block alone is read again. */
export class GrowingText {
  #text = ''
  #read: Document = { blocks: [], references: new Map() }
  /** The blocks that cannot change any more, and where the text behind them begins. */
  #done: readonly Block[] = []
  #from = 0
  /** Where the links lead that stand in what cannot change any more. */
  #defined: References = new Map()

  read(text: string): Document {
    if (text === this.#text) return this.#read
    if (!text.startsWith(this.#text.slice(0, this.#from))) this.#again()
    this.#text = text
    const rest = text.slice(this.#from)
    const { blocks, starts, references } = parseBlocks(rest)
    const now = new Map([...references, ...this.#defined])
    const before = this.#read.references
    const isSame =
      before.size === now.size && [...now].every(([name, to]) => before.get(name) === to)
    const all = isSame ? before : now
    const blocksNow = [...this.#done, ...blocks]
    // The block before the last one is closed: what comes later cannot change it.
    const last = starts.at(-1)
    if (blocks.length > 1 && last !== undefined) {
      this.#done = blocksNow.slice(0, -1)
      const closed = parseBlocks(rest.slice(0, offsetOf(rest, last))).references
      this.#defined = new Map([...closed, ...this.#defined])
      this.#from += offsetOf(rest, last)
    }
    return (this.#read = { blocks: blocksNow, references: all })
  }

  #again(): void {
    this.#done = []
    this.#from = 0
    this.#defined = new Map()
    this.#read = { blocks: [], references: new Map() }
  }
}

/** Where a line of a text begins. */
function offsetOf(text: string, line: number): number {
  const ends = /\r\n|\n|\r/g
  for (let nth = 0; nth < line; nth++) if (!ends.exec(text)) return text.length
  return line === 0 ? 0 : ends.lastIndex
}

/** What is still open at the end of a text that streams, closed for show: `**`, `*`, `~~`, a backtick, a link. */
export function closedForShow(text: string): string {
  const tail = text.slice(-2_000)
  const head = text.slice(0, text.length - tail.length)
  let shown = tail
    .replace(/!?\[([^[\]\n]*)\]\([^()\s]*$/, '$1')
    .replace(/(?:\*\*?|__?|~~?|`+|\\)$/, '')
  const ticks = shown.match(/`+/g) ?? []
  if (ticks.length % 2 === 1) return `${head}${shown}${ticks.at(-1) ?? ''}`
  const words = shown.replace(/`+[^`]*`+/g, '').replace(/\\[^]/g, '')
  for (const [mark, pattern] of [
    ['~~', /~~/g],
    ['*', /(?<!\*)\*(?!\*)(?=\S)|(?<=\S)(?<!\*)\*(?!\*)/g],
    ['**', /\*\*/g],
  ] as const)
    if ((words.match(pattern) ?? []).length % 2 === 1 && new RegExp(`\\${mark[0]}\\S`).test(words))
      shown = shown.trimEnd() + mark
  return head + shown
}
