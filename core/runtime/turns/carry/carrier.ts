import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import type { Log, RunCause, RunUsage } from '../../../plugin.ts'
import { isConnectionError } from '../../store/database-errors.ts'
import { CarriedRun, type CarriedRunOptions, type CarriedRunParts } from './carried-run.ts'
import { stopWhenAlone } from '../events/alone.ts'
import type { CutAnswer, CutAnswers } from '../gates/ending.ts'
import { closeJournal, givenUpNotice, type JournalClosing, saidSince } from './close.ts'
import { isPoisonous, putIntoQuarantine, quarantined, quarantinedNotice } from './quarantine.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { promoteRun } from '../journal/leases.ts'
import { neverApproved } from '../journal/stop.ts'
import type { RunStatus, Stop } from '../journal/tables.ts'
import { userMessageId } from '../user-message.ts'
import { type Engine, type Run, type RunEnd, RunLost, StoppedMeanwhile } from '../run.ts'

/** How long an engine that was told to stop may go on before the run ends without it. */
const stopPatienceMs = 3_000
/** How long the end of a stopped run waits: the published client takes an end before the answer to its Stop for a broken stream. */
const endAfterStopMs = 100
/** How long the deletion of a session waits for what readers have been shown to be kept. */
const keptMs = 2_000
/** What a user reads when an engine failed; the log has the cause. */
const broken = new RuntimeError('INTERNAL', 'Something went wrong on our side.')
/** The sentences that users read in place of an answer when a run could not bring one. */
export const endNotices: readonly string[] = [givenUpNotice, quarantinedNotice]
/** How often a run that does not get on is taken over. */
const takeovers = 4
/** How often a queued run looks whether the run before it has ended: a notification of that end may be lost. */
const queueMs = 1_000

/** What a carrier is made of. */
export interface CarrierOptions extends Omit<CarriedRunParts, 'onLost'> {
  readonly engine: Engine
  readonly log: Log
  /** What an answer cost whose engine is gone, judged by the words that it said. */
  usageOf?(run: Run, said: string): Promise<RunUsage | undefined>
  /** Called when a run has ended, here or in another process. */
  readonly onEnded: () => void
  /** Called when this process has kept the end of a run. */
  readonly onKept: (run: CarriedRun) => void
  /** Hears what other replicas say of the session of a run, until the function that this returns is called. */
  interest(sessionId: string): () => void
}

/** Carries the runs of this process from their first event to their end. */
export class Carrier {
  readonly #parts: CarriedRunParts
  readonly #engine: Engine
  readonly #log: Log
  readonly #usageOf: CarrierOptions['usageOf']
  readonly #onEnded: () => void
  readonly #onKept: (run: CarriedRun) => void
  readonly #interest: CarrierOptions['interest']
  readonly #live = new Map<string, CarriedRun>()
  readonly #bySession = new Map<string, Set<CarriedRun>>()
  readonly #carrying = new Set<Promise<void>>()
  readonly #queued = new Set<() => void>()

  constructor({ engine, log, usageOf, onEnded, onKept, interest, ...parts }: CarrierOptions) {
    this.#engine = engine
    this.#usageOf = usageOf
    this.#onEnded = onEnded
    this.#interest = interest
    this.#log = log
    this.#onKept = onKept
    this.#parts = { ...parts, onLost: (run) => this.#forget(run) }
  }

  get live(): ReadonlyMap<string, CarriedRun> {
    return this.#live
  }

  /** The runs of a session that are carried here. */
  ofSession(sessionId: string): CarriedRun[] {
    return [...(this.#bySession.get(sessionId) ?? [])]
  }

  /**
   * Brings to the database what readers have been shown of a user's runs in a session, before the session is deleted: whoever
   * bills a turn that ends with its session counts what was said. Resolves to what answers cost that are being given, by run.
   * A database that takes nothing is not waited for long.
   */
  async keepShown(did: string, sessionId: string): Promise<CutAnswers> {
    const answers: Map<string, CutAnswer> = new Map()
    const runs = this.ofSession(sessionId).filter(({ row }) => row.did === did)
    if (runs.length === 0) return answers
    const waiting = new AbortController()
    const late = sleep(keptMs, undefined, { signal: waiting.signal }).catch(() => undefined)
    const keep = async (run: CarriedRun) => {
      await run.feed.flush()
      const { said, keptSeq } = await saidSince(this.#parts.store, run.runId)
      const usage = said === '' ? undefined : await this.#estimated(run, said)
      if (usage) answers.set(run.runId, { keptSeq, usage })
    }
    await Promise.race([Promise.allSettled(runs.map(keep)), late])
    waiting.abort()
    return answers
  }

  /** Stops those of the runs that are carried here; returns the others, which other processes carry. */
  stop(runIds: readonly string[], why: Stop): string[] {
    return runIds.filter((runId) => {
      const run = this.#live.get(runId)
      run?.stop(why)
      return run === undefined
    })
  }

  /** Resolves when every run has ended, or was let go by its engine. */
  async settled(): Promise<void> {
    await Promise.all(this.#carrying)
  }

  /** Makes queued runs look again: a run has ended somewhere, and another of its session may begin. */
  nudge(): void {
    for (const nudge of this.#queued) nudge()
    this.#onEnded()
  }

  /** Carries a run that this process holds. */
  carry(options: CarriedRunOptions): CarriedRun {
    const run = new CarriedRun(this.#parts, options)
    this.#live.set(run.runId, run)
    const leave = this.#interest(run.sessionId)
    // Whoever reads a run that was taken over told the process that had it.
    if (run.takenOver) run.feed.follow()
    const siblings = this.#bySession.get(run.sessionId)
    if (siblings) siblings.add(run)
    else this.#bySession.set(run.sessionId, new Set([run]))
    const { row } = run
    const resumed = run.takenOver && { resumed: true, partialLength: row.kept_length }
    // A run that continues another begins with no message, and one that a plugin began with no message of the user.
    const words = run.request.from === 'plugin' ? {} : { userMessageId: userMessageId(run.runId) }
    const began = row.continues === null ? words : { continues: row.continues }
    // A run that is only brought to its end does not go on, so its readers are told nothing of a beginning.
    if (!isOnlyClosed(run) || row.version === 0) run.feed.emit('run', { ...began, ...resumed })
    // The process that takes the run over next must find in the events that the run changed hands here.
    if (run.takenOver) run.feed.flush().catch(() => undefined)
    if (!run.takenOver && !options.isTold) this.#parts.news?.began(run)
    if (row.stop) run.stop(row.stop)
    const stopMinding = stopWhenAlone(run)
    const carrying = this.#toItsEnd(run).finally(() => {
      stopMinding()
      this.#carrying.delete(carrying)
      run.seat?.leave()
      this.#forget(run)
      leave()
      run.firstWord.resolve()
      run.gotOn.resolve()
      this.nudge()
    })
    this.#carrying.add(carrying)
    return run
  }

  async #toItsEnd(run: CarriedRun): Promise<void> {
    try {
      const outcome = await this.#outcome(run)
      try {
        await this.#end(run, outcome)
      } catch (error) {
        if (!(error instanceof StoppedMeanwhile)) throw error
        // Nobody was asked yet: the question is taken back, and the run ends as any run that is stopped.
        run.stop(error.why)
        await this.#closeJournal(run, { lost: neverApproved })
        await this.#end(run, { ...outcome, status: 'aborted' })
      }
    } catch (error) {
      run.watch?.left(run.isHandedOver)
      const { runId } = run
      if (!(error instanceof RunLost) || error.cause !== undefined)
        this.#log.warn(
          { err: error, runId },
          'A run was dropped; it goes on when its lease is over',
        )
      // The run does not fail for a database that is away: the process that reaches the database goes on with the run.
      run.feed.lose('the database failed')
    }
  }

  async #outcome(run: CarriedRun): Promise<RunEnd> {
    const { row } = run
    if (row.status === 'queued') await this.#untilFirst(run)
    if (isPoisonous(row) && !run.stopped) return this.#quarantine(run)
    if (isOverdue(run)) {
      if (!run.stopped)
        this.#log.warn({ runId: row.id }, `A run was given up after ${takeovers} takeovers`)
      await this.#closeJournal(run, run.stopped ? {} : { notice: givenUpNotice })
      return { status: 'interrupted' }
    }
    if (run.refusal) {
      const { message, code } = run.refusal
      run.emit('error', { error: message, code, retryable: false })
    }
    if (run.stopped) return { status: 'aborted' }
    try {
      const end = await this.#runEngine(run)
      if (end.status === 'aborted') throwIfLost(run)
      return end
    } catch (error) {
      throwIfLost(run)
      if (error instanceof RunLost || isConnectionError(error)) throw error
      if (!run.stopped) {
        this.#log.error({ err: error, runId: row.id }, 'The engine threw')
        run.emit('error', { error: broken.message, code: broken.code, retryable: false })
      }
      await this.#closeJournal(run)
      return run.stopped ? { status: 'aborted' } : { status: 'failed', error: broken }
    }
  }

  /** Closes a run with which a process died twice; the engine does not see it. */
  async #quarantine(run: CarriedRun): Promise<RunEnd> {
    const { store } = this.#parts
    await putIntoQuarantine(store, run.row)
    this.#log.error(
      { runId: run.runId, sessionId: run.sessionId },
      'A run was quarantined: the process died twice while it carried the run',
    )
    await this.#closeJournal(run, { notice: quarantinedNotice })
    const { message, code } = quarantined
    run.emit('error', { error: message, code, retryable: false })
    return { status: 'failed', error: quarantined }
  }

  /** Waits until every earlier run of the session has ended, or this one is stopped. */
  async #untilFirst(run: CarriedRun): Promise<void> {
    let nudged = Promise.withResolvers<void>()
    const nudge = () => nudged.resolve()
    run.signal.addEventListener('abort', nudge, { once: true })
    this.#queued.add(nudge)
    while (!run.stopped) {
      run.signal.throwIfAborted()
      nudged = Promise.withResolvers()
      if (await promoteRun(this.#parts.store, run.row)) break
      await Promise.race([nudged.promise, sleep(queueMs, undefined, { ref: false })])
    }
    run.signal.removeEventListener('abort', nudge)
    this.#queued.delete(nudge)
  }

  /** The end that the engine came to, or an end without the engine when it does not stop. */
  #runEngine(run: CarriedRun): Promise<RunEnd> {
    const { signal } = run
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const onAbort = () => (timer = setTimeout(endWithoutIt, stopPatienceMs))
      const endWithoutIt = () => {
        run.isCutOff = true
        if (signal.reason instanceof RunLost) return reject(signal.reason)
        this.#log.warn({ runId: run.runId }, 'A run did not stop by itself; it is ended')
        this.#closeJournal(run).then(() => resolve({ status: 'aborted' }), reject)
      }
      const unlessCutOff =
        <T>(settle: (value: T) => void) =>
        (value: T) => {
          clearTimeout(timer)
          signal.removeEventListener('abort', onAbort)
          if (!run.isCutOff) settle(value)
        }
      signal.addEventListener('abort', onAbort, { once: true })
      // Async, so that an engine that throws at once is no different from one that rejects.
      const engineEnd = async () => {
        underWay(`run ${run.runId} of session ${run.sessionId}`)
        return this.#engine(run)
      }
      engineEnd().then(unlessCutOff(resolve), unlessCutOff(reject))
    })
  }

  #closeJournal(run: CarriedRun, closing: Omit<JournalClosing, 'usageOf'> = {}): Promise<void> {
    const usageOf = (of: CarriedRun, said: string) => this.#estimated(of, said)
    return closeJournal(this.#parts.store, run, { ...closing, usageOf })
  }

  /** What an answer cost, judged by its words. */
  async #estimated(run: CarriedRun, said: string): Promise<RunUsage | undefined> {
    try {
      return await this.#usageOf?.(run, said)
    } catch (err) {
      // A model that is not there any more, for example: the end of a run does not wait for a figure.
      if (err instanceof RunLost) throw err
      this.#log.warn({ err, runId: run.runId }, 'What an answer cost could not be estimated')
      return undefined
    }
  }

  async #end(run: CarriedRun, outcome: RunEnd): Promise<void> {
    const { stopped } = run
    const { news } = this.#parts
    const end = news?.withNotice(run, outcome) ?? outcome
    run.end = end
    if (stopped?.why === 'aborted') {
      const wait = endAfterStopMs - (performance.now() - stopped.at)
      if (wait > 0) await sleep(wait)
    }
    this.#parts.at('before the end is kept', run.runId)
    const status = statusOf(run, end)
    const usage = await run.spent()
    const telling = news?.endedBy(run, status)
    await run.feed.finish(status, { ...end, cause: causeOf(run, status, end), usage, telling })
    this.#parts.at('after the end is kept', run.runId)
    run.watch?.ended({ status, usage, cause: causeOf(run, status, end) })
    if (status !== 'waiting') this.#onKept(run)
    if (!telling) news?.ended(run, status)
  }

  #forget(run: CarriedRun): void {
    if (this.#live.get(run.runId) === run) this.#live.delete(run.runId)
    const siblings = this.#bySession.get(run.sessionId)
    siblings?.delete(run)
    if (siblings?.size === 0) this.#bySession.delete(run.sessionId)
  }
}

const isOnlyClosed = (run: CarriedRun) => isOverdue(run) || isPoisonous(run.row)

/** Whether the run was taken over only to be ended: it was stopped meanwhile, or was taken over too often without a new step. */
function isOverdue({ takenOver, row }: CarriedRun): boolean {
  return takenOver && (row.stop !== null || row.attempts > takeovers)
}

/** Throws the `RunLost` for which the run had to let go; the engine may have thrown an error of its own instead. */
function throwIfLost({ signal }: CarriedRun): void {
  if (signal.reason instanceof RunLost) throw signal.reason
}

/** The status of an end. A run that was done before it heard of a stop is finished; any other ends as the stop says. */
function statusOf({ stopped }: CarriedRun, { status }: RunEnd): RunStatus {
  if (!stopped || status === 'finished') return status
  return stopped.why === 'aborted' ? 'aborted' : 'interrupted'
}

/** Why a run ended before its engine came to an end. A run that neither finished nor was stopped was given up. */
function causeOf(
  { stopped, row }: CarriedRun,
  status: RunStatus,
  end: RunEnd,
): RunCause | undefined {
  if (status === 'finished' || status === 'waiting') return undefined
  // A turn that waited in vain has its cause from the beginning.
  if (row.cause !== null) return row.cause
  if (stopped) return stopped.cause ?? (stopped.why === 'aborted' ? 'stopped' : 'superseded')
  const isQuarantined = end.status === 'failed' && end.error === quarantined
  return status === 'interrupted' || isQuarantined ? 'given-up' : undefined
}
