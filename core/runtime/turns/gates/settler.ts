import type { Log, RunEnding } from '../../../plugin.ts'
import { Expected } from './expected.ts'
import { forgetOrphans, keepFacts, marksOfSession, putOff, turnsWaitingIn } from './marks.ts'
import { GateQueries, type Mark, type Root } from './queries.ts'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import type { TurnRequest } from '../run.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'
import {
  type CutAnswers,
  type EndingFacts,
  type EndingWords,
  endingOf,
  endingOfWaiting,
  type EndingOptions,
  fromKept,
  replyTo,
  wordsOf,
} from './ending.ts'
import type { RunGates } from './gates.ts'

/** How often a process looks for ends that no consumer has heard of. */
const sweepMs = 10_000
/** How many ends one statement finds, and how many of them are told at once. */
const batch = { size: 50, atOnce: 4 }
/** How many ends the transaction tells that deletes a session; the others are told soon after. */
const mostAtDeletion = 50

/** The moments of settling at which a test may end the process. */
export type SettlingMoment =
  'before the end is settled' | 'while the end is settled' | 'after the end is settled'

/** What a settler is made of. */
export interface SettlerOptions extends Pick<EndingOptions, 'notices'> {
  readonly store: RunStore
  readonly gates: RunGates
  readonly log: Log
  /** Called at every moment of settling. */
  at(moment: SettlingMoment, runId: string): void
}

/**
 * Tells everybody who wants to know of the ends of runs: each once for a run, in a transaction that also deletes the row
 * which says that it has yet to be told. A transaction that does not commit leaves the row, so this process or another
 * tries again. Every consumer has a row and a transaction of its own: one that fails keeps no other from hearing.
 */
export class Settler {
  readonly #options: SettlerOptions
  readonly #queries: GateQueries
  #timer: NodeJS.Timeout | undefined
  readonly #expected = new Expected()
  /** What is to be told of runs that have just ended here. There is at most one entry for each run that was under way, and consumer. */
  readonly #ended: Mark[] = []
  #sweeping: Promise<void> | undefined
  #again = false
  #next: { readonly at: number; readonly timer: NodeJS.Timeout } | undefined
  #closed = false

  constructor(options: SettlerOptions) {
    this.#options = options
    this.#queries = new GateQueries(options.store)
  }

  /** Begins to look for ends of which consumers have yet to hear: from before a restart, and of processes that died. */
  open(): void {
    if (this.#options.gates.isEmpty) return
    this.#timer = setInterval(() => this.nudge(), sweepMs).unref()
    this.nudge()
  }

  /** Stops once the transactions under way are over. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    clearTimeout(this.#next?.timer)
    await this.#sweeping
  }

  /** Notes in the transaction that records a run who has to hear of its end. */
  async expect(
    trx: RunDatabase,
    root: Root,
    request: TurnRequest,
    consumers: readonly string[] = this.#options.gates.consumersOf(request),
  ): Promise<void> {
    await this.#queries.mark(trx, root, consumers)
    this.#expected.note(root, consumers)
  }

  /** Notes who has to hear that a waiting turn never begins, in the transaction by which a stop takes it out of the queue. */
  async unqueued(trx: RunDatabase, turn: WaitingTurnsTable): Promise<void> {
    const request: TurnRequest = JSON.parse(turn.request) // written when the turn was queued
    const root = { session_id: turn.session_id, root_id: turn.id }
    await this.expect(trx, root, request)
    const facts = JSON.stringify(endingOfWaiting(turn, request, 'stopped'))
    for (const consumer of this.#options.gates.consumersOf(request))
      await keepFacts(trx, { ...root, consumer }, facts)
  }

  /** A run of this process has ended: who has to hear of it is known here, and need not be looked for. */
  ended(root: Root): void {
    const { gates } = this.#options
    if (this.#closed || gates.isEmpty) return
    const marks = this.#expected.take(root)
    const listening = new Set(gates.listening)
    if (!marks?.every(({ consumer }) => listening.has(consumer))) return this.nudge()
    if (marks.length === 0) return
    this.#ended.push(...marks)
    this.#sweep()
  }

  /** Some run has ended: its end is told soon, and nobody waits for that. */
  nudge(): void {
    if (this.#closed || this.#options.gates.isEmpty) return
    this.#again = true
    this.#sweep()
  }

  #sweep(): void {
    this.#sweeping ??= this.#sweepAll().finally(() => (this.#sweeping = undefined))
  }

  /** Forgets old rows of consumers that the app does not have any more. */
  async purge(): Promise<void> {
    await forgetOrphans(this.#options.store, this.#options.gates.consumers)
  }

  /**
   * Runs the deletion of a session and tells in its transaction of the ends of the session's runs. Where a consumer fails
   * or is not at work, the deletion keeps what that consumer has yet to hear, and the consumer hears of it later. `cut` is what
   * the answers cost that are being given.
   */
  async deleting<T>(
    sessionId: string,
    cut: CutAnswers,
    remove: (tell: (trx: RunDatabase) => Promise<void>) => Promise<T>,
  ): Promise<T> {
    const { gates, log } = this.#options
    const failing = new Set<string>()
    for (;;) {
      try {
        const removed = await remove((trx) => this.#tellSession(trx, sessionId, cut, failing))
        this.nudge()
        return removed
      } catch (error) {
        if (!(error instanceof NotTold) || failing.size > gates.consumers.length) throw error
        failing.add(error.consumer)
        const { consumer, runId, cause } = error
        log.warn({ err: cause, runId, plugin: consumer }, 'The end of a run could not be told')
      }
    }
  }

  async #sweepAll(): Promise<void> {
    const { gates, log } = this.#options
    try {
      while ((this.#again || this.#ended.length > 0) && !this.#closed) {
        await this.#settleAll(this.#ended.splice(0))
        if (!this.#again) continue
        this.#again = false
        const consumers = gates.listening
        if (consumers.length === 0) return
        const marks = await this.#queries.due(consumers, batch.size)
        await this.#settleAll(marks)
        if (marks.length === batch.size) this.#again = true
      }
    } catch (error) {
      log.warn({ err: error }, 'Ends of runs could not be looked for; trying again')
    }
  }

  async #settleAll(marks: readonly Mark[]): Promise<void> {
    for (let i = 0; i < marks.length && !this.#closed; i += batch.atOnce)
      await Promise.all(marks.slice(i, i + batch.atOnce).map((mark) => this.#settle(mark)))
  }

  async #settle(mark: Mark): Promise<void> {
    const { store, log, at } = this.#options
    const { root_id: runId, consumer, tries } = mark
    try {
      at('before the end is settled', runId)
      // A power cut may lose what was settled and with it the deletion of the row, which is then found again.
      await store.commits.alone((trx) => this.#settleIn(trx, mark))
      at('after the end is settled', runId)
    } catch (error) {
      log.warn(
        { err: error, runId, plugin: consumer, tries: tries + 1 },
        'The end of a run could not be told; trying again',
      )
      try {
        this.#wakeIn(await putOff(store, mark))
      } catch (err) {
        log.warn({ err, runId }, 'The next try of an end could not be noted; a sweep finds it')
      }
    }
  }

  async #settleIn(trx: RunDatabase, mark: Mark): Promise<void> {
    if (!(await this.#queries.take(trx, mark))) return
    const words: EndingWords = {}
    const facts =
      mark.facts === null
        ? await endingOf(this.#queries, trx, mark, { ...this.#asTold(), words })
        : fromKept(mark.facts)
    if (facts) await this.#tell(trx, mark, facts, words)
    this.#options.at('while the end is settled', mark.root_id)
  }

  /** Looks again in so many milliseconds, or at an earlier time that is planned already. */
  #wakeIn(ms: number): void {
    const at = performance.now() + ms
    if (this.#closed || (this.#next && this.#next.at <= at)) return
    clearTimeout(this.#next?.timer)
    const look = () => {
      this.#next = undefined
      this.nudge()
    }
    this.#next = { at, timer: setTimeout(look, ms).unref() }
  }

  async #tellSession(
    trx: RunDatabase,
    sessionId: string,
    cut: CutAnswers,
    failing: ReadonlySet<string>,
  ): Promise<void> {
    const { store, gates } = this.#options
    if (gates.consumers.length === 0) return
    const known: Map<string, EndingFacts | undefined> = await this.#expectWaiting(trx, sessionId)
    const marks = await marksOfSession(store, trx, sessionId)
    const listening = new Set(gates.listening)
    for (const [i, mark] of marks.entries()) {
      const { root_id, consumer } = mark
      if (!known.has(root_id))
        known.set(root_id, await endingOf(this.#queries, trx, mark, this.#asTold(cut)))
      const facts = known.get(root_id)
      const isToldNow = i < mostAtDeletion && listening.has(consumer) && !failing.has(consumer)
      if (facts && !isToldNow) {
        await keepFacts(trx, mark, JSON.stringify(facts))
        continue
      }
      await trx
        .deleteFrom('kernel_unsettled')
        .where((eb) => eb.and({ session_id: sessionId, root_id, consumer }))
        .execute()
      if (!facts) continue
      try {
        await this.#tell(trx, mark, facts)
      } catch (error) {
        throw new NotTold(consumer, root_id, error)
      }
    }
  }

  /** Notes who has to hear that the turns which wait in a session never begin, because the session is being deleted. */
  async #expectWaiting(trx: RunDatabase, sessionId: string): Promise<Map<string, EndingFacts>> {
    const endings = new Map<string, EndingFacts>()
    for (const turn of await turnsWaitingIn(trx, sessionId)) {
      const request: TurnRequest = JSON.parse(turn.request) // written when the turn was queued
      endings.set(turn.id, endingOfWaiting(turn, request, 'deleted'))
      await this.expect(trx, { session_id: sessionId, root_id: turn.id }, request)
    }
    return endings
  }

  #asTold(deleted?: CutAnswers): EndingOptions {
    const { gates, notices } = this.#options
    return { pluginOf: gates.pluginOf, notices, deleted }
  }

  async #tell(
    trx: RunDatabase,
    mark: Mark,
    facts: EndingFacts,
    { reply, message }: EndingWords = {},
  ): Promise<void> {
    const run: RunEnding = {
      ...facts,
      reply: async () => reply?.() ?? replyTo(trx, mark),
      message: async () => message?.() ?? wordsOf(trx, mark),
    }
    await this.#options.gates.end(mark.consumer, run, trx)
  }
}

/** A consumer failed in the transaction that deletes a session. */
class NotTold extends Error {
  readonly consumer: string
  readonly runId: string

  constructor(consumer: string, runId: string, cause: unknown) {
    super(`${consumer} could not be told of the end of run ${runId}.`, { cause })
    this.consumer = consumer
    this.runId = runId
  }
}
