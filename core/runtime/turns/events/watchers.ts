import type { WaitingEnd } from '../journal/stop.ts'

/** A reply of a session ends where its user stopped listening. `messageId` is missing where nothing of it is left. */
export interface SessionCut {
  readonly runId: string
  readonly requestId: string
  readonly messageId?: string
  readonly chars: number
}

/** A run of a session that waited for a person, and has ended without a decision. */
export interface ClosedRun {
  readonly runId: string
  readonly requestId: string
  readonly status: WaitingEnd['status']
}

/** What somebody who watches a session wants to hear. */
export interface Watcher {
  onRun(runId: string): void
  onDeleted?(): void
  onCut?(cut: SessionCut): void
  onClosed?(run: ClosedRun): void
}

/** Who in this process watches which sessions: told of every run that begins there, and of the session's end. */
export class Watchers {
  readonly #ofSession = new Map<string, Set<Watcher>>()
  readonly #since = new Map<string, number>()
  readonly #interest: (sessionId: string) => () => void

  /** `interest` hears what other replicas say of a session, until the function that `interest` returns is called. */
  constructor(interest: (sessionId: string) => () => void) {
    this.#interest = interest
  }

  /** Watches a session until the function that this returns is called. */
  add(sessionId: string, watcher: Watcher): () => void {
    const watchers = this.#ofSession.get(sessionId) ?? new Set()
    this.#ofSession.set(sessionId, watchers.add(watcher))
    if (!this.#since.has(sessionId)) this.#since.set(sessionId, performance.now())
    const leave = this.#interest(sessionId)
    return () => {
      leave()
      watchers.delete(watcher)
      if (watchers.size > 0 || this.#ofSession.get(sessionId) !== watchers) return
      this.#ofSession.delete(sessionId)
      this.#since.delete(sessionId)
    }
  }

  /** The sessions that are watched here, each with the milliseconds since somebody watches it. */
  get watched(): ReadonlyMap<string, number> {
    const now = performance.now()
    return new Map([...this.#since].map(([sessionId, at]) => [sessionId, now - at]))
  }

  /** A run has begun in the session, here or in another process. */
  began(sessionId: string, runId: string): void {
    for (const { onRun } of this.#ofSession.get(sessionId) ?? []) onRun(runId)
  }

  /** The session was deleted. */
  deleted(sessionId: string): void {
    for (const { onDeleted } of this.#ofSession.get(sessionId) ?? []) onDeleted?.()
  }

  /** A reply of the session was cut, here or in another process. */
  cut(sessionId: string, cut: SessionCut): void {
    for (const { onCut } of this.#ofSession.get(sessionId) ?? []) onCut?.(cut)
  }

  /** A run of the session that waited for a person has ended without a decision, here or in another process. */
  closed(sessionId: string, run: ClosedRun): void {
    for (const { onClosed } of this.#ofSession.get(sessionId) ?? []) onClosed?.(run)
  }
}
