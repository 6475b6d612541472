import { RuntimeError } from '../../../errors.ts'
import type { Log, RunCause, User } from '../../../plugin.ts'
import { isGateCode } from '../../base/plugin-record.ts'
import type { RunStore } from '../journal/store.ts'
import { slices } from '../journal/store.ts'
import { expiredTurns, nextOf, waitingSessions, whereabouts, type WaitingTurn } from './look.ts'

/** How often a process looks for waiting turns, also where no notification told it of one. */
const pollMs = 5_000

/**
 * What came of the attempt to begin a waiting turn. With `inMs` the turn goes on waiting, and the process tries
 * again after that time. A turn that a plugin has `refused` waits no more.
 */
export type Attempted =
  'begun' | 'gone' | { readonly inMs: number } | { readonly refused: RuntimeError }

/** What waiting turns need. */
export interface WaitingTurnsOptions {
  readonly store: RunStore
  readonly log: Log
  readonly leaseMs: number
  /** Hears what other replicas say of a session, until the function that this returns is called. */
  interest(sessionId: string): () => void
  /** Has a turn begin; with a cause, has it end without a beginning. `user` is who started it, where that is known here. */
  begin(turn: WaitingTurn, user: User | undefined, cause?: RunCause): Promise<Attempted>
}

/** Somebody in this process who waits for the beginning of a turn. */
interface Waiter {
  readonly sessionId: string
  readonly user: User
  readonly outcome: PromiseWithResolvers<WaitEnd>
}

/**
 * How the wait for a turn ended: the turn has begun, was taken away, was refused by a plugin, or goes on waiting without this
 * process.
 */
export type WaitEnd = 'begun' | 'gone' | 'closing' | { readonly refused: RuntimeError }

/**
 * Begins the turns that wait, each when its session is free and the oldest of a session first. A process that knows of
 * waiting turns looks for what can begin whenever a run ends; every process also looks again and again, for the turns of
 * processes that died.
 */
export class WaitingTurns {
  readonly #options: WaitingTurnsOptions
  /** The sessions in which turns wait, and the time of this process before which none is tried there. */
  readonly #sessions = new Map<string, number>()
  readonly #waiters = new Map<string, Set<Waiter>>()
  readonly #interests = new Map<string, () => void>()
  #timer: NodeJS.Timeout | undefined
  #next: { readonly at: number; readonly timer: NodeJS.Timeout } | undefined
  #looking: Promise<void> | undefined
  #again = false
  #isPolling = false
  #isClosed = false

  constructor(options: WaitingTurnsOptions) {
    this.#options = options
  }

  /** Begins to look after waiting turns. */
  async open(): Promise<void> {
    const everyMs = Math.min(pollMs, Math.max(this.#options.leaseMs / 2, 50))
    this.#timer = setInterval(() => void this.poll(), everyMs).unref()
    await this.poll()
  }

  /** Begins no more turns. Callers of `outcomeOf` hear that this process closes. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    clearTimeout(this.#next?.timer)
    await this.#looking
    for (const id of this.#waiters.keys()) this.#tell(id, 'closing')
  }

  /** A turn of this process waits in the session. */
  queued(sessionId: string): void {
    this.#sessions.set(sessionId, 0)
    this.#listen()
    void this.#look()
  }

  /** A run has ended somewhere: the next turn of its session may begin. */
  nudge(): void {
    if (this.#sessions.size > 0) void this.#look()
  }

  /** Resolves when the turn has begun, at this process or another one, or will not begin any more. */
  outcomeOf(id: string, sessionId: string, user: User): Promise<WaitEnd> {
    const waiter: Waiter = { sessionId, user, outcome: Promise.withResolvers() }
    const waiters = this.#waiters.get(id)
    if (waiters) waiters.add(waiter)
    else this.#waiters.set(id, new Set([waiter]))
    this.#listen()
    if (this.#isClosed) this.#tell(id, 'closing')
    return waiter.outcome.promise
  }

  /** A run has begun. */
  began(id: string): void {
    this.#tell(id, 'begun')
  }

  /** A waiting turn was taken away. */
  left(id: string): void {
    this.#tell(id, 'gone')
  }

  /** A session was deleted, with the turns that waited there. */
  deleted(sessionId: string): void {
    this.#sessions.delete(sessionId)
    for (const [id, [waiter]] of this.#waiters)
      if (waiter?.sessionId === sessionId) this.#tell(id, 'gone')
    this.#listen()
  }

  /** Hears of the sessions in which turns wait, and of no others. */
  #listen(): void {
    const wanted = new Set(this.#isClosed ? [] : this.#sessions.keys())
    for (const waiters of this.#waiters.values())
      for (const { sessionId } of waiters) wanted.add(sessionId)
    for (const sessionId of wanted)
      if (!this.#interests.has(sessionId))
        this.#interests.set(sessionId, this.#options.interest(sessionId))
    for (const [sessionId, leave] of this.#interests)
      if (!wanted.has(sessionId)) {
        this.#interests.delete(sessionId)
        leave()
      }
  }

  /** Looks for waiting turns in the database: those that can begin, and those that waited too long. */
  async poll(): Promise<void> {
    if (this.#isPolling || this.#isClosed) return
    this.#isPolling = true
    const { store, log } = this.#options
    try {
      for (const turn of await expiredTurns(store)) await this.#begin(turn, 'expired')
      await this.#lookAfterWaiters()
    } catch (err) {
      log.warn({ err }, 'Waiting turns could not be looked after; trying again')
    }
    this.#isPolling = false
    await this.#look()
  }

  /** Begins what can begin. A call during a look makes it look once more. */
  #look(): Promise<void> {
    this.#again = true
    this.#looking ??= this.#lookAll()
    return this.#looking
  }

  async #lookAll(): Promise<void> {
    await undefined // the caller notes the look first
    try {
      while (this.#again && !this.#isClosed) {
        this.#again = false
        for (const sessionId of await this.#freeSessions()) {
          if (this.#isClosed) break
          const notBefore = this.#sessions.get(sessionId) ?? 0
          if (notBefore <= performance.now()) await this.#advance(sessionId)
        }
      }
    } catch (err) {
      this.#options.log.warn({ err }, 'Waiting turns could not be looked for; trying again')
    }
    this.#looking = undefined
  }

  /** The sessions in which a turn can begin. Notes those in which turns wait, and forgets those in which none does. */
  async #freeSessions(): Promise<string[]> {
    const before = [...this.#sessions.keys()]
    const { sessions, areAll } = await waitingSessions(this.#options.store)
    for (const sessionId of sessions.keys())
      if (!this.#sessions.has(sessionId)) this.#sessions.set(sessionId, 0)
    // `queued` notes a session again in which a turn was queued meanwhile, and asks for another look.
    if (areAll)
      for (const sessionId of before) if (!sessions.has(sessionId)) this.#sessions.delete(sessionId)
    this.#listen()
    return [...sessions].filter(([, isBusy]) => !isBusy).map(([sessionId]) => sessionId)
  }

  /** Begins the next turn of a session. */
  async #advance(sessionId: string): Promise<void> {
    const { store, log } = this.#options
    try {
      const turn = await nextOf(store, sessionId)
      if (!turn) return
      const attempted = await this.#begin(turn)
      if (attempted === 'gone') this.#again = true
      if (typeof attempted !== 'object') return
      if ('refused' in attempted) {
        this.#again = true
        const { id: runId, did } = turn
        log.info({ sessionId, runId, did, err: attempted.refused }, 'A waiting turn was refused')
        return
      }
      this.#tryAgain(sessionId, attempted.inMs)
      log.debug({ sessionId, ...attempted }, 'A waiting turn cannot begin yet')
    } catch (err) {
      this.#tryAgain(sessionId, pollMs)
      // A plugin that must be asked and is not there yet is no fault whose stack would help.
      const why = err instanceof RuntimeError && isGateCode(err.code) ? { code: err.code } : { err }
      log.warn({ ...why, sessionId }, 'A waiting turn could not begin; trying again')
    }
  }

  async #begin(turn: WaitingTurn, cause?: RunCause): Promise<Attempted> {
    const [waiter] = this.#waiters.get(turn.id) ?? []
    const attempted = await this.#options.begin(turn, waiter?.user, cause)
    if (attempted === 'begun') this.#tell(turn.id, 'begun')
    if (typeof attempted === 'object' && 'refused' in attempted) this.#tell(turn.id, attempted)
    return attempted
  }

  /** Leaves a session alone for a time. */
  #tryAgain(sessionId: string, inMs: number): void {
    const at = performance.now() + inMs
    this.#sessions.set(sessionId, at)
    if (this.#isClosed || (this.#next && this.#next.at <= at)) return
    clearTimeout(this.#next?.timer)
    const look = () => {
      this.#next = undefined
      void this.#look()
    }
    this.#next = { at, timer: setTimeout(look, inMs).unref() }
  }

  /** Asks the database about the turns whose outcome callers here wait for: a notification may have been lost. */
  async #lookAfterWaiters(): Promise<void> {
    for (const ids of slices([...this.#waiters.keys()])) {
      const { begun, waiting } = await whereabouts(this.#options.store, ids)
      for (const id of ids)
        if (begun.has(id)) this.#tell(id, 'begun')
        else if (!waiting.has(id)) this.#tell(id, 'gone')
    }
  }

  #tell(id: string, outcome: WaitEnd): void {
    const waiters = this.#waiters.get(id)
    if (!waiters) return
    this.#waiters.delete(id)
    for (const waiter of waiters) waiter.outcome.resolve(outcome)
  }
}
