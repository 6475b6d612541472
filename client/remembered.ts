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

/** Reads what a tab remembers. A page that may not use its storage forgets at a reload and is none the worse. */
export function remembered(storage: () => TabStorage, key: string): RememberedRun | undefined {
  try {
    return JSON.parse(storage().getItem(key)!) ?? undefined
  } catch {
    return undefined
  }
}

/** Remembers a run, or forgets it. */
export function remember(storage: () => TabStorage, key: string, run?: RememberedRun): void {
  try {
    if (run) storage().setItem(key, JSON.stringify(run))
    else storage().removeItem(key)
  } catch {
    // Not allowed, or full.
  }
}
