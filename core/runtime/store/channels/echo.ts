import { randomUUID } from 'node:crypto'

/** Finds out whether this process hears what it tells itself, and how long that takes. */
export class Echo {
  readonly #patienceMs: number
  #awaited: { readonly word: string; heard(): void } | undefined
  #tookMs: number | undefined

  /** An echo that does not come within `patienceMs` counts as one that never comes. */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
  }

  /** How long the last word took to come back; undefined where it did not. */
  get tookMs(): number | undefined {
    return this.#tookMs
  }

  /** Takes a word that came in. */
  heard(word: string): void {
    if (word === this.#awaited?.word) this.#awaited.heard()
  }

  /** Sends a word; resolves to whether it came back in time. */
  async comesBack(send: (word: string) => Promise<unknown> | void): Promise<boolean> {
    const word = randomUUID()
    const began = performance.now()
    let late: NodeJS.Timeout | undefined
    const isHeard = new Promise<boolean>((resolve) => {
      this.#awaited = { word, heard: () => resolve(true) }
      late = setTimeout(resolve, this.#patienceMs, false).unref()
    })
    try {
      await send(word)
      const hasCome = await isHeard
      this.#tookMs = hasCome ? performance.now() - began : undefined
      return hasCome
    } finally {
      clearTimeout(late)
      this.#awaited = undefined
    }
  }
}
