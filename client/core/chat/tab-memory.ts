/** A run that this tab began. The tab keeps it over a reload and goes on with it then. */
export interface RememberedRun {
  readonly runId: string
  readonly requestId: string
  /** Calls of the page's own tools that have begun. */
  readonly begun: readonly string[]
  /** The begun calls whose result the page has not handed in. */
  readonly open: readonly string[]
}

/** The storage of one tab that outlives a reload: `sessionStorage`, or what stands in for it. */
export type TabStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

/** What a tab remembers of one chat. A page that may not use its storage forgets the run at a reload, and nothing else. */
export class TabMemory {
  readonly #storage: () => TabStorage
  readonly #key: string

  constructor(storage: () => TabStorage, key: string) {
    this.#storage = storage
    this.#key = key
  }

  /** The run that this tab began before a reload. */
  read(): RememberedRun | undefined {
    try {
      const kept = this.#storage().getItem(this.#key)
      return kept ? JSON.parse(kept) : undefined
    } catch {
      return undefined
    }
  }

  /** Remembers a run, or forgets the last one. */
  write(run?: RememberedRun): void {
    try {
      if (run) this.#storage().setItem(this.#key, JSON.stringify(run))
      else this.#storage().removeItem(this.#key)
    } catch {
      // The page may not use its storage, or the storage is full.
    }
  }
}
