/** A run that this tab began, so that the tab goes on with it after a reload. */
export interface RememberedRun {
  readonly runId: string
  readonly requestId: string
  /** Calls of the page's own tools that have begun. */
  readonly begun: readonly string[]
  /** Those of them whose result was not handed in. */
  readonly open: readonly string[]
}

/** What remembers over a reload, for one tab. */
export type TabStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

/** The tab's own memory; a page that may not use it forgets at a reload and is none the worse. */
export class Memory {
  readonly #key: string
  readonly #storage: () => TabStorage

  constructor(key: string, storage: () => TabStorage = () => sessionStorage) {
    this.#key = `oracle-run ${key}`
    this.#storage = storage
  }

  read(): RememberedRun | undefined {
    try {
      return JSON.parse(this.#storage().getItem(this.#key) ?? 'null') ?? undefined
    } catch {
      return undefined
    }
  }

  write(run: RememberedRun | undefined): void {
    try {
      if (run) this.#storage().setItem(this.#key, JSON.stringify(run))
      else this.#storage().removeItem(this.#key)
    } catch {
      // Not allowed, or full.
    }
  }
}
