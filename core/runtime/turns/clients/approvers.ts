import { Present } from './present.ts'

/** How long other replicas may take to say that they have a socket that shows approvals. */
const usualPatienceMs = 400
/** How long the answer of the other replicas counts, or their silence. */
const freshMs = 10_000
/** How many answers of other replicas this process remembers; beyond that, it forgets the answer about the oldest session. */
const mostRemembered = 10_000

/** What the other replicas said of a session, and until when their answer counts. */
interface Heard {
  readonly isThere: boolean
  readonly until: number
}

/** The sessions whose clients show approvals on a socket, here and at other replicas. */
export class Approvers {
  readonly #here = new Present()
  readonly #heard = new Map<string, Heard>()
  readonly #asking = new Map<string, PromiseWithResolvers<boolean>>()
  readonly #askOthers: ((sessionId: string) => void) | undefined
  readonly #patienceMs: number

  /** `askOthers` asks the other replicas, which answer by `arrived`; absent where there are none. */
  constructor(
    askOthers: ((sessionId: string) => void) | undefined,
    patienceMs: number = usualPatienceMs,
  ) {
    this.#askOthers = askOthers
    this.#patienceMs = patienceMs
  }

  /** Counts a socket of the session that shows approvals, until the function that this returns is called. */
  enter(sessionId: string): () => void {
    return this.#here.enter(sessionId)
  }

  /** Whether this process has such a socket of the session. */
  hasHere(sessionId: string): boolean {
    return this.#here.has(sessionId)
  }

  /** Whether there is such a socket, as far as this process knows. */
  knows(sessionId: string): boolean {
    return this.hasHere(sessionId) || this.#fresh(sessionId)?.isThere === true
  }

  /** Called when another replica says that it has such a socket. */
  arrived(sessionId: string): void {
    this.#remember(sessionId, true)
    this.#asking.get(sessionId)?.resolve(true)
  }

  /** Whether there is such a socket at any replica. Questions about one session at the same time ask the others once. */
  async look(sessionId: string): Promise<boolean> {
    if (this.hasHere(sessionId)) return true
    const heard = this.#fresh(sessionId)
    if (heard) return heard.isThere
    if (!this.#askOthers) return false
    const known = this.#asking.get(sessionId)
    if (known) return await known.promise
    const asking = Promise.withResolvers<boolean>()
    this.#asking.set(sessionId, asking)
    const timer = setTimeout(() => asking.resolve(false), this.#patienceMs)
    this.#askOthers(sessionId)
    const isThere = await asking.promise
    clearTimeout(timer)
    this.#asking.delete(sessionId)
    this.#remember(sessionId, isThere)
    return this.hasHere(sessionId) || isThere
  }

  #fresh(sessionId: string): Heard | undefined {
    const heard = this.#heard.get(sessionId)
    return heard && heard.until > performance.now() ? heard : undefined
  }

  #remember(sessionId: string, isThere: boolean): void {
    this.#heard.delete(sessionId)
    this.#heard.set(sessionId, { isThere, until: performance.now() + freshMs })
    const [oldest] = this.#heard.keys()
    if (this.#heard.size > mostRemembered && oldest !== undefined) this.#heard.delete(oldest)
  }
}
