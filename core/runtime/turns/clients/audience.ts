import { Present } from './present.ts'

/** How long a page may take to connect again before its tools count as out of reach. */
const usualPatienceMs = 2_000

/**
 * The clients that could carry out a call of a client's own tool: those that hold a socket of the session, or read the
 * run's stream. Sessions and runs are known by their ids.
 */
export class Audience {
  readonly #present = new Present()
  readonly #awaited = new Map<string, Set<() => void>>()
  readonly #askOthers: (runId: string, sessionId: string) => void
  readonly #patienceMs: number

  /** `askOthers` asks the other replicas; `arrived` is called when a replica that has somebody answers. */
  constructor(askOthers: (runId: string, sessionId: string) => void, patienceMs = usualPatienceMs) {
    this.#askOthers = askOthers
    this.#patienceMs = patienceMs
  }

  /** Counts a reader or a socket of `id` as there, until the caller calls the returned function. */
  enter(id: string): () => void {
    const leave = this.#present.enter(id)
    this.arrived(id)
    return leave
  }

  /** Whether somebody is there at this process. */
  has(id: string): boolean {
    return this.#present.has(id)
  }

  /** Ends the waits for `id`: a reader or a socket has come, to this process or to another replica. */
  arrived(id: string): void {
    for (const tell of this.#awaited.get(id) ?? []) tell()
  }

  /** Whether anybody is there for the run, or comes within the time that a page needs to connect again. */
  async isThere(runId: string, sessionId: string): Promise<boolean> {
    if (this.has(runId) || this.has(sessionId)) return true
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const timer = setTimeout(() => resolve(false), this.#patienceMs)
    const come = () => resolve(true)
    for (const id of [runId, sessionId]) {
      const awaited = this.#awaited.get(id)
      if (awaited) awaited.add(come)
      else this.#awaited.set(id, new Set([come]))
    }
    this.#askOthers(runId, sessionId)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      for (const id of [runId, sessionId]) {
        const awaited = this.#awaited.get(id)
        awaited?.delete(come)
        if (awaited?.size === 0) this.#awaited.delete(id)
      }
    }
  }
}
