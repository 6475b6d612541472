/** What somebody who watches a session wants to hear. */
interface Watcher {
  onRun(runId: string): void
  onDeleted?(): void
}

/** Who in this process watches which sessions: told of every run that begins there, and of the session's end. */
export class Watchers {
  readonly #ofSession = new Map<string, Set<Watcher>>()

  /** Watches a session until the function that this returns is called. */
  add(sessionId: string, onRun: (runId: string) => void, onDeleted?: () => void): () => void {
    const watcher: Watcher = { onRun, onDeleted }
    const watchers = this.#ofSession.get(sessionId) ?? new Set()
    this.#ofSession.set(sessionId, watchers.add(watcher))
    return () => {
      watchers.delete(watcher)
      if (watchers.size === 0 && this.#ofSession.get(sessionId) === watchers)
        this.#ofSession.delete(sessionId)
    }
  }

  /** A run has begun in the session, here or in another process. */
  began(sessionId: string, runId: string): void {
    for (const { onRun } of this.#ofSession.get(sessionId) ?? []) onRun(runId)
  }

  /** The session was deleted. */
  deleted(sessionId: string): void {
    for (const { onDeleted } of this.#ofSession.get(sessionId) ?? []) onDeleted?.()
  }
}
