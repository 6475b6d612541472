import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RuntimeError } from '../../../errors.ts'
import type { Message, RunCause, TurnUsage, User } from '../../../plugin.ts'
import { UsageSum } from '../../model/usage/usage-sum.ts'
import type { Approvers } from '../clients/approvers.ts'
import type { ClientAnswers } from '../clients/client-answers.ts'
import {
  type Effects,
  type EffectState,
  type Journal,
  type JournalEntry,
  type NewResult,
  type Results,
  type RunEnd,
  type Run,
  RunLost,
  type TurnRequest,
} from '../run.ts'
import type { TraceSpan } from '../../telemetry/span.ts'
import type { Telemetry } from '../../telemetry/telemetry.ts'
import type { TurnWatch, WatchedTurn } from '../../telemetry/turn-watch.ts'
import { Feed } from '../events/feed.ts'
import type { Batcher } from '../events/batcher.ts'
import type { RunNews } from '../events/news.ts'
import { readHistory } from './history.ts'
import { beginEffect, finishEffect } from '../journal/effects.ts'
import { keepResult, readResult } from '../journal/results.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import type { Stop } from '../journal/tables.ts'
import type { SettlingMoment } from '../gates/settler.ts'
import type { Seat } from '../limits.ts'
import { addSpent, positionOf, spentIn, toEntries, toRows } from '../journal/steps.ts'

/** The moments of a run at which a test may end the process. */
export type RunMoment =
  | 'after the turn is queued'
  | 'before a waiting turn begins'
  | SettlingMoment
  | 'before the run is recorded'
  | 'after the run is recorded'
  | 'before an effect is marked'
  | 'after an effect is marked'
  | 'before the result of an effect is kept'
  | 'after the result of an effect is kept'
  | 'before a step is kept'
  | 'after a step is kept'
  | 'before the end is kept'
  | 'after the end is kept'

/** What all carried runs of a process share. */
export interface CarriedRunParts {
  readonly store: RunStore
  readonly batcher: Batcher
  readonly answers: ClientAnswers
  readonly approvers: Approvers
  /** Tells users of their runs, also users who do not have the session open. */
  readonly news?: RunNews
  /** Watches the runs; without it nobody does. */
  readonly telemetry?: Telemetry
  /** Called when this process does not carry the run any more. */
  onLost(run: CarriedRun): void
  /** Called at every moment of every run. */
  at(moment: RunMoment, runId: string): void
}

/** What a carried run is made of. */
export interface CarriedRunOptions {
  readonly row: RunRow
  readonly request: TurnRequest
  readonly user: User
  readonly room: string
  readonly takenOver: boolean
  readonly previous?: string
  readonly redactions: number
  readonly checkpoint?: string
  /** The run's seat among the turns of this process, where these are limited. */
  readonly seat?: Seat
  /** The span of the turn, where the request began it. */
  readonly span?: TraceSpan
  /** Why the run ends without having begun. */
  readonly refusal?: RuntimeError
  /** Whether the user's readers were told already that the run begins. */
  readonly isTold?: boolean
}

/** Events that are no word: a failure, another model in place of one that failed, and what a model reads of a long conversation. */
const silent = new Set(['error', 'model', 'context'])

/** A run that this process carries: what the engine gets of the run, and how the process stops the run. */
export class CarriedRun implements Run {
  readonly runId: string
  readonly rootId: string
  readonly requestId: string
  readonly sessionId: string
  readonly user: User
  readonly room: string
  readonly request: TurnRequest
  readonly takenOver: boolean
  readonly continues?: Run['continues']
  readonly previous?: string
  readonly redactions: number
  readonly checkpoint?: string
  readonly journal: Journal
  readonly effects: Effects
  readonly results: Results
  readonly row: RunRow
  readonly seat?: Seat
  readonly refusal?: RuntimeError
  readonly feed: Feed
  readonly watch?: TurnWatch
  /** When this process took the run, by `performance.now()`. */
  readonly heldSince = performance.now()
  /** Why the run has to end, and since when; undefined while nothing has stopped the run. */
  stopped: { readonly why: Stop; readonly at: number; readonly cause?: RunCause } | undefined
  /** Resolves when the run says its first word, which is anything but a failure, or says no more. */
  readonly firstWord = Promise.withResolvers<void>()
  hasSpoken = false
  /** Resolves when a step of the run is kept, or this process carries the run no more. */
  readonly gotOn = Promise.withResolvers<void>()
  /** Whether the engine did not stop in time: what the engine still emits or writes is then dropped. */
  isCutOff = false
  /** Whether this process lets go of the run because it closes. */
  isHandedOver = false
  /** How the engine ended the run. */
  end: RunEnd | undefined
  readonly #parts: CarriedRunParts
  readonly #controller = new AbortController()
  #rows: number
  readonly #heldAt = Date.now()
  /** The calls whose writes have begun, until the journal has their results. */
  readonly #writing = new Set<string>()
  #stopsAfterWrites = false
  #hasToldTakeover = false
  /** What the calls of models cost that this process has written down. */
  readonly #spent = new UsageSum()

  constructor(parts: CarriedRunParts, options: CarriedRunOptions) {
    const { row } = options
    this.#parts = parts
    this.row = row
    this.runId = row.id
    this.rootId = row.root_id
    this.requestId = row.request_id
    this.sessionId = row.session_id
    this.user = options.user
    this.room = options.room
    this.request = options.request
    this.takenOver = options.takenOver
    this.previous = options.previous
    this.redactions = options.redactions
    this.checkpoint = options.checkpoint
    this.seat = options.seat
    this.refusal = options.refusal
    if (row.continues !== null && row.decision !== null)
      this.continues = { runId: row.continues, decision: JSON.parse(row.decision) }
    this.#rows = row.steps
    this.watch = parts.telemetry?.watch(watched(options))
    const letGo = (lost: RunLost) => {
      parts.onLost(this)
      this.#controller.abort(lost)
    }
    this.feed = new Feed(parts.batcher, row, letGo, this.watch?.traceparent)
    this.journal = {
      read: async () => toEntries(await this.#orLost(() => parts.store.stepsOf(row))),
      history: (characters) => this.#orLost(() => this.#history(characters)),
      append: (entry, urgency) =>
        this.isCutOff ? Promise.reject(this.#cutOff()) : this.appendStep(entry, urgency),
      flush: () => this.feed.flush(),
    }
    this.results = {
      keep: (result) => this.#keepResult(result),
      read: (handle) => this.#orLost(() => readResult(parts.store, row, handle)),
    }
    this.effects = {
      begin: (toolCallId, tool) => this.#beginEffect(toolCallId, tool),
      finish: (toolCallId, content, failed) => this.#finishEffect(toolCallId, content, failed),
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get isWatched(): boolean {
    return this.#parts.approvers.knows(this.sessionId)
  }

  watched(): Promise<boolean> {
    return this.#parts.approvers.look(this.sessionId)
  }

  emit(event: string, data: Readonly<Record<string, unknown>>): void {
    if (this.isCutOff) return
    if (!this.hasSpoken && !silent.has(event)) {
      this.hasSpoken = true
      this.firstWord.resolve()
    }
    if (event === 'message') this.watch?.heard()
    this.feed.emit(event, data)
  }

  clientResult(toolCallId: string, timeoutMs: number, tell?: () => void) {
    return this.#parts.answers.ask(this, toolCallId, timeoutMs, tell)
  }

  /** Stops the run: the signals of the model and of the tools fire at once. `cause` is why, where `why` does not say it. */
  stop(why: Stop, cause?: RunCause): void {
    if (this.stopped || this.signal.aborted) return
    this.stopped = { why, at: performance.now(), cause }
    this.seat?.stopped()
    const message =
      why === 'aborted' ? 'The run was stopped.' : 'A newer message came in the session.'
    this.#controller.abort(new DOMException(message, 'AbortError'))
  }

  /**
   * Stops the run once the writes that its tools have begun are done and the journal has what came of them. Until then no
   * other begins.
   */
  stopAfterWrites(): void {
    this.#stopsAfterWrites = true
    if (this.#writing.size === 0) this.stop('aborted')
  }

  /** The server closes: the engine lets go, and another process goes on. */
  handOver(): void {
    this.isHandedOver = true
    this.#controller.abort(new RunLost(`Run ${this.runId} is handed over: the server closes.`))
  }

  /** Adds a step to the journal, for the engine or for the end that is made without the engine. */
  async appendStep(entry: JournalEntry, urgency?: 'now' | 'soon'): Promise<void> {
    const { row } = this
    const owner = {
      by: shortName(this.#parts.store.owner),
      runId: row.id,
      rootId: row.root_id,
      sessionId: row.session_id,
      turn: row.turn,
    }
    const rows = toRows(owner, this.#rows, this.#withTakeover(entry, owner.by))
    addSpent(this.#spent, entry)
    this.#rows += rows.length
    this.#parts.at('before a step is kept', row.id)
    const kept = this.feed.append(rows, urgency)
    for (const message of entry.messages)
      if (message.role === 'tool') this.#writing.delete(message.toolCallId)
    if (this.#stopsAfterWrites && this.#writing.size === 0) this.stop('aborted')
    await kept
    this.gotOn.resolve()
    this.#parts.at('after a step is kept', row.id)
  }

  /** The first step after a takeover tells of it, so that the takeover costs no write of its own. */
  #withTakeover(entry: JournalEntry, by: string): JournalEntry {
    if (!this.takenOver || this.#hasToldTakeover || this.watch?.traces !== true) return entry
    this.#hasToldTakeover = true
    return { ...entry, takeover: { at: this.#heldAt, by, attempts: this.row.attempts } }
  }

  /** What the whole turn cost. What another process or an earlier run of the turn wrote down stands in the journal alone. */
  async spent(): Promise<TurnUsage | undefined> {
    if (!this.takenOver && !this.continues) return this.#spent.whole()
    await this.feed.flush()
    return spentIn(await this.#orLost(() => this.#parts.store.stepsOf(this.row))).whole()
  }

  async #beginEffect(toolCallId: string, tool: string): Promise<EffectState> {
    const { store, at } = this.#parts
    at('before an effect is marked', this.runId)
    if (this.isCutOff || this.feed.isOver) throw this.#cutOff()
    if (this.#stopsAfterWrites) {
      if (!this.signal.aborted) await once(this.signal, 'abort')
      throw this.signal.reason
    }
    this.#writing.add(toolCallId)
    const state = await this.#orLost(() => beginEffect(store, this.row, toolCallId, tool))
    if (!state) {
      this.feed.lose('another process carries it')
      throw this.#cutOff()
    }
    at('after an effect is marked', this.runId)
    return state
  }

  async #finishEffect(toolCallId: string, content: string, failed: boolean): Promise<void> {
    const { store, at } = this.#parts
    at('before the result of an effect is kept', this.runId)
    await this.#orLost(() =>
      patiently(() => finishEffect(store, this.row, toolCallId, content, failed)),
    )
    at('after the result of an effect is kept', this.runId)
  }

  async #keepResult(result: NewResult): Promise<string | undefined> {
    if (this.isCutOff || this.feed.isOver) throw this.#cutOff()
    const keeping = await this.#orLost(() => keepResult(this.#parts.store, this.row, result))
    if (keeping === 'full') return undefined
    if (keeping !== 'lost') return keeping.handle
    this.feed.lose('another process carries it')
    throw this.#cutOff()
  }

  #history(characters: number): Promise<Message[]> {
    // Before its first turn a session has nothing, and whoever begins one waits for the first word.
    if (this.row.root_turn <= 1) return Promise.resolve([])
    const position = positionOf(this.row.root_turn, 0)
    return readHistory(this.#parts.store, { sessionId: this.sessionId, position }, characters)
  }

  /** A database that fails is no reason for a run to fail: the process that reaches the database goes on with the run. */
  async #orLost<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      this.feed.lose('the database failed', error)
      throw new RunLost(`Run ${this.runId} is lost: the database failed.`, { cause: error })
    }
  }

  #cutOff(): RunLost {
    return new RunLost(`Run ${this.runId} is not carried here any more.`)
  }
}

/** Enough of the name of a process to tell it from others. */
const shortName = (owner: string): string => owner.slice(0, 8)

/** What of a run its watch may know. */
function watched({ row, request, takenOver, span }: CarriedRunOptions): WatchedTurn {
  const { origin, from, model, waitedMs, traceparent } = request
  return {
    runId: row.id,
    sessionId: row.session_id,
    requestId: row.request_id,
    source: origin ?? 'http',
    takenOver,
    ...(from && { from }),
    ...(model !== undefined && { model }),
    ...(waitedMs !== undefined && row.continues === null && { waitedMs }),
    ...(traceparent !== undefined && { traceparent }),
    ...(span && { span }),
  }
}

/** Tries a few times more than usual: what a tool has done must be kept if that is possible. */
async function patiently<T>(write: () => Promise<T>): Promise<T> {
  for (let tries = 4; ; tries--) {
    try {
      return await write()
    } catch (error) {
      if (tries === 0) throw error
      await sleep(250)
    }
  }
}
