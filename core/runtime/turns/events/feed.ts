import type { EarlyEnd, RunCause, TurnUsage } from '../../../plugin.ts'
import { join, sealed, toData, type EventFacts, type Unsealed, unsealed } from './data.ts'
import { type RunEvent, toBatches } from '../journal/event-lines.ts'
import { EventWindow } from './window.ts'
import { type RunEnd, RunLost, StoppedMeanwhile } from '../run.ts'
import type { Batcher } from './batcher.ts'
import type { RunRow } from '../journal/store.ts'
import type { RunStatus, Stop } from '../journal/tables.ts'
import type { RunWrite } from '../journal/write.ts'
import type { StepRow } from '../journal/steps.ts'
import type { Telling } from '../../store/channels/channels.ts'

/** How much may wait for the database, in events and in characters, before this process lets go of the run. */
const unwritten = { events: 50_000, characters: 16 * 1024 * 1024 }
/** How long readers at another replica count as there after that replica said so. */
const followedMs = 15_000
/** From so many characters on, the next batch is written at once. */
const muchText = 256 * 1024

/**
 * How far event numbers jump when a run changes hands: further than the last owner can have shown events without
 * writing them, so a client never takes a new event for one that it has seen.
 */
export const takeoverSkip = 2 * unwritten.events

/** Events that may wait for the next batch. Any other event is written at once where another replica follows the run. */
const patient = new Set(['message', 'reasoning', 'progress'])

interface Pending {
  events: RunEvent[]
  length: number
  steps: StepRow[]
  kept?: RunWrite['kept']
  /** The end, with the events that readers have once the database has it. */
  end?: RunWrite['end'] & {
    readonly last: readonly RunEvent[]
    readonly kept: PromiseWithResolvers<void>
  }
  settles: PromiseWithResolvers<void>[]
  /** Whether a caller waits until this is written. */
  urgent: boolean
}

const nothing = (): Pending => ({ events: [], length: 0, steps: [], settles: [], urgent: false })

/** What else there is to say of an end. */
interface EndFacts {
  readonly cause?: RunCause
  /** What the turn cost, for its readers. */
  readonly usage?: TurnUsage
  /** Why the model's last answer ended early. */
  readonly ended?: EarlyEnd
  /** What the statement that writes the end tells the user's readers. */
  readonly telling?: Telling
}

/** Brings the events and steps of one run from the engine to the readers and into the database. */
export class Feed {
  readonly runId: string
  /** The span of the turn, where somebody collects spans. */
  readonly traceparent: string | undefined
  readonly window: EventWindow
  readonly #batcher: Batcher
  readonly #facts: EventFacts
  readonly #epoch: number
  readonly #onLost: (reason: RunLost) => void
  #version: number
  #lastSeq: number
  #writtenSeq: number
  #textLength: number
  #followedUntil = 0
  #said = false
  #closed = false
  #isLettingGo = false
  #over = false
  #tick: Unsealed[] = []
  /** What a person is asked: told with the end of the run, for no answer counts before the database has the question. */
  #questions: Unsealed[] = []
  #pending = nothing()
  #underWay: { readonly write: RunWrite; readonly pending: Pending } | undefined

  constructor(
    batcher: Batcher,
    run: RunRow,
    onLost: (reason: RunLost) => void,
    traceparent?: string,
  ) {
    this.traceparent = traceparent
    this.#batcher = batcher
    this.#onLost = onLost
    this.runId = run.id
    this.#facts = { runId: run.id, sessionId: run.session_id, requestId: run.request_id }
    this.#epoch = run.epoch
    this.#version = run.version
    this.#lastSeq = run.last_seq
    this.#writtenSeq = run.last_seq
    this.#textLength = run.kept_length
    this.window = new EventWindow(run.last_seq)
  }

  /** Whether the run has ended or was lost: the feed brings nothing more. */
  get isOver(): boolean {
    return this.#over
  }

  /** Whether the feed takes nothing more, because the end of the run is on its way to the database or there. */
  get isClosed(): boolean {
    return this.#closed
  }

  /** How many characters wait for the database. */
  get unwrittenLength(): number {
    return this.#pending.length + (this.#underWay?.pending.length ?? 0)
  }

  /** Whether readers at another replica have the events from the database. */
  get isFollowed(): boolean {
    return this.#batcher.isShared && performance.now() < this.#followedUntil
  }

  /**
   * For how long nobody has read the run, at no replica, in milliseconds. Another replica tells every five seconds that
   * somebody reads there.
   */
  get unreadMs(): number {
    const { unreadSince } = this.window
    if (unreadSince === undefined) return 0
    return performance.now() - Math.max(unreadSince, this.#followedUntil - followedMs)
  }

  /** Another replica says that it has readers, or may have some: for a time the events are written at once. */
  follow(): void {
    const isNew = !this.isFollowed
    this.#followedUntil = performance.now() + followedMs
    if (isNew && this.#hasPending()) this.#batcher.toWrite(this, true)
  }

  /** Takes an event. The readers have it at the end of this tick. */
  emit(event: string, data: Readonly<Record<string, unknown>>): void {
    if (this.#closed) return
    const item = unsealed(event, data)
    if (event === 'interrupt') return void this.#questions.push(item)
    if (event === 'message' && item.text !== undefined) this.#textLength += item.text.length
    if (join(this.#tick.at(-1), item)) return
    this.#tick.push(item)
    if (this.#tick.length === 1) this.#batcher.atTick(this)
  }

  /** Numbers what was emitted in this tick and shows it to the readers. */
  seal(at?: string): void {
    if (this.#tick.length === 0) return
    const timestamp = at ?? new Date().toISOString()
    let urgent = this.#pending.length > muchText
    let tells = false
    const events = this.#tick.map((item): RunEvent => {
      const data = sealed(item, this.#facts, timestamp)
      const first = item.event === 'message' && !this.#said
      if (first) this.#said = true
      tells ||= first || !patient.has(item.event)
      return { id: ++this.#lastSeq, event: item.event, data }
    })
    this.#tick = []
    this.window.push(events)
    const pending = this.#pending
    for (const event of events) {
      pending.events.push(event)
      pending.length += event.data.length
    }
    urgent ||= tells && this.isFollowed
    if (this.#isOverfull()) this.lose('the database does not take its events')
    else this.#batcher.toWrite(this, urgent, tells)
  }

  /** Writes a step of the journal, with every event that was emitted before it. */
  append(steps: readonly StepRow[], urgency: 'now' | 'soon' = 'now'): Promise<void> {
    if (this.#closed) return Promise.reject(new RunLost('The run has ended or is lost.'))
    this.seal()
    // The first word of what follows is written at once: should the process die, its user finds that somebody spoke.
    this.#said = false
    this.#pending.steps.push(...steps)
    this.#pending.kept = { seq: this.#lastSeq, length: this.#textLength }
    return this.#settled(urgency)
  }

  /** Resolves when all that was emitted and appended so far is in the database. */
  flush(): Promise<void> {
    this.seal()
    if (this.#over || (!this.#underWay && !this.#hasPending())) return Promise.resolve()
    return this.#settled()
  }

  /** Ends the run. Readers get `done`, and before it what a person is asked, once everything is stored. */
  finish(
    status: RunStatus,
    {
      cause,
      checkpoint,
      save,
      inserts,
      usage,
      ended,
      telling,
    }: Omit<RunEnd, 'status'> & EndFacts = {},
  ): Promise<void> {
    if (this.#closed) return Promise.reject(new RunLost('The run has ended or is lost.'))
    this.seal()
    this.#closed = true
    const asked = status === 'waiting' ? this.#questions : []
    const last = [...asked, unsealed('done', { status, usage, ended })].map((item): RunEvent => {
      const data = toData(item.event, item.data, this.#facts, '')
      return { id: ++this.#lastSeq, event: item.event, data }
    })
    const kept = Promise.withResolvers<void>()
    this.#pending.events.push(...last)
    this.#pending.end = { status, cause, checkpoint, save, inserts, telling, last, kept }
    return this.#settled('now', kept)
  }

  /**
   * Told when the database refused the end of a run that was to wait for a person, because somebody has stopped the run.
   * The end is taken back, of which no reader has heard; all else is written again, and the run may end in another way.
   */
  stopped(why: Stop): void {
    const end = this.#underWay?.pending.end
    if (!this.#underWay || !end || this.#over) return
    const { pending } = this.#underWay
    const later = this.#pending
    this.#underWay = undefined
    this.#lastSeq -= end.last.length
    this.#questions = []
    this.#pending = {
      events: pending.events.slice(0, -end.last.length),
      length: pending.length,
      steps: pending.steps,
      kept: pending.kept,
      settles: [...pending.settles.filter((settle) => settle !== end.kept), ...later.settles],
      urgent: true,
    }
    this.#closed = this.#isLettingGo
    if (this.#hasPending()) this.#batcher.toWrite(this, true)
    end.kept.reject(new StoppedMeanwhile(why))
  }

  /** Takes nothing more from the engine; what the feed has is still written. */
  close(): void {
    this.seal()
    this.#closed = true
    this.#isLettingGo = true
  }

  /** What to write next: the same again until `written` says that the database has it. */
  take(): RunWrite | undefined {
    if (this.#over) return undefined
    if (!this.#underWay) {
      const pending = this.#pending
      this.#pending = nothing()
      this.#underWay = {
        pending,
        write: {
          id: this.runId,
          sessionId: this.#facts.sessionId,
          isFollowed: this.isFollowed,
          epoch: this.#epoch,
          version: this.#version + 1,
          lastSeq: pending.events.at(-1)?.id ?? this.#writtenSeq,
          batches: toBatches(pending.events),
          steps: pending.steps,
          kept: pending.kept,
          end: pending.end,
        },
      }
    }
    return this.#underWay.write
  }

  /** Told when the database has what was taken last. */
  written(): void {
    if (!this.#underWay || this.#over) return
    const { write, pending } = this.#underWay
    this.#underWay = undefined
    this.#version = write.version
    this.#writtenSeq = write.lastSeq
    this.window.release(write.lastSeq)
    if (pending.end) {
      this.#over = true
      this.window.push(pending.end.last)
      this.window.end()
    } else if (this.#hasPending()) this.#batcher.toWrite(this, this.#pending.urgent)
    for (const settle of pending.settles) settle.resolve()
  }

  /** Lets go of the run: another process may carry it on, and the readers follow the run there. */
  lose(why: string, cause?: unknown): void {
    if (this.#over) return
    this.#over = true
    this.#closed = true
    this.#tick = []
    this.#batcher.forget(this)
    const lost = new RunLost(`Run ${this.runId} is lost: ${why}.`, { cause })
    for (const settle of [...(this.#underWay?.pending.settles ?? []), ...this.#pending.settles])
      settle.reject(lost)
    this.#pending = nothing()
    this.#onLost(lost)
    this.window.move()
  }

  #settled(urgency: 'now' | 'soon' = 'now', settle = Promise.withResolvers<void>()): Promise<void> {
    this.#pending.settles.push(settle)
    this.#pending.urgent ||= urgency === 'now'
    this.#batcher.toWrite(this, urgency === 'now')
    return settle.promise
  }

  #hasPending(): boolean {
    const { events, steps, settles } = this.#pending
    return events.length > 0 || steps.length > 0 || settles.length > 0
  }

  #isOverfull(): boolean {
    const count = this.#pending.events.length + (this.#underWay?.pending.events.length ?? 0)
    return count > unwritten.events || this.unwrittenLength > unwritten.characters
  }
}
