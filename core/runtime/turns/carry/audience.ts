/** How long a page may take to connect again before its tools count as out of reach. */
const usualPatienceMs = 2_000

/**
 * Who could carry out a call of a client's own tool: whoever holds a socket of the session, or reads the run's
 * stream. Sessions and runs are known by their ids.
 */
export class Audience {
  readonly #present = new Map<string, number>()
  readonly #awaited = new Map<string, Set<() => void>>()
  readonly #askOthers: (runId: string, sessionId: string) => void
  readonly #patienceMs: number

  /** `askOthers` asks the other replicas; a replica that has somebody answers, and `arrived` is called. */
  constructor(askOthers: (runId: string, sessionId: string) => void, patienceMs = usualPatienceMs) {
    this.#askOthers = askOthers
    this.#patienceMs = patienceMs
  }

  /** Counts somebody as there, until the function that this returns is called. */
  enter(id: string): () => void {
    this.#present.set(id, (this.#present.get(id) ?? 0) + 1)
    this.arrived(id)
    let left = false
    return () => {
      if (left) return
      left = true
      const others = (this.#present.get(id) ?? 1) - 1
      if (others > 0) this.#present.set(id, others)
      else this.#present.delete(id)
    }
  }

  /** Whether somebody is there at this process. */
  has(id: string): boolean {
    return this.#present.has(id)
  }

  /** Told when somebody came, to this process or to another replica. */
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
