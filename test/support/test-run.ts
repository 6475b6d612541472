import type { RuntimeError, User } from '#core'
import type { RunEnd, Run } from '../../core/runtime/turns/run.ts'
import type { EventReader } from '../../core/runtime/turns/events/reader.ts'

/** An event of a run as its listeners got it. */
export interface Heard {
  readonly event: string
  readonly data: any // any: a test asserts on it right away
}

/** How a run came out of its engine. */
export interface Outcome extends Pick<RunEnd, 'checkpoint'> {
  readonly status: RunEnd['status'] | 'lost'
  readonly error?: RuntimeError
}

/** A run that is over. */
export type Ended = TestRun & { readonly end: any } // any: a test asserts on it right away

/** A run in the hands of the process that carries it. */
export interface Carried {
  readonly handle: Run
  /** Makes the process count as gone: nothing that it does from now on reaches anybody. */
  die(): void
  /** Presses Stop for a person; the run hears of the stop at once. */
  stop(): void
}

/** The parts that a run of a test needs. */
interface RunParts {
  readonly events: EventReader
  readonly outcome: Promise<Outcome>
  historyReads(): number
  carried(): Carried | undefined
  stop(): Promise<unknown>
  answer(toolCallId: string, answer: { result?: unknown; error?: string }): Promise<boolean>
}

/** One run, as a client follows it. */
export class TestRun {
  readonly runId: string
  readonly requestId: string
  readonly sessionId: string
  readonly user: User
  /** What listeners heard, in order, without `run` and `done`, which stand around every run. */
  readonly heard: Heard[] = []
  /** The end of the run, once everything was heard; `lost` when its process lost the run. */
  readonly ended: Promise<Outcome>
  readonly #parts: RunParts
  readonly #waiting = new Set<() => void>()

  constructor(facts: Pick<TestRun, 'runId' | 'requestId' | 'sessionId' | 'user'>, parts: RunParts) {
    this.runId = facts.runId
    this.requestId = facts.requestId
    this.sessionId = facts.sessionId
    this.user = facts.user
    this.#parts = parts
    this.ended = this.#follow()
  }

  /** How often the earlier messages were read from the journal. */
  get historyReads(): number {
    return this.#parts.historyReads()
  }

  /** The run as its engine was handed it. */
  get handle(): Run {
    return this.#carried.handle
  }

  /** Makes the process that carries the run count as gone. */
  die(): void {
    this.#carried.die()
  }

  /** A person presses Stop. */
  stop(): Promise<unknown> {
    return this.#parts.stop()
  }

  /** The client's answer to a call of its own tools. */
  answer(toolCallId: string, answer: { result?: unknown; error?: string }): Promise<boolean> {
    return this.#parts.answer(toolCallId, answer)
  }

  /** The events of one name. */
  of(event: string): Heard['data'][] {
    return this.heard.filter((heard) => heard.event === event).map(({ data }) => data)
  }

  /** The events of one name, once there are so many. */
  async hears(event: string, count = 1): Promise<Heard['data'][]> {
    while (this.of(event).length < count)
      await new Promise<void>((resolve) => this.#waiting.add(resolve))
    return this.of(event)
  }

  /** All that was said, as a client joins it. */
  get text(): string {
    return this.of('message')
      .map(({ content }) => content)
      .join('')
  }

  get #carried(): Carried {
    const carried = this.#parts.carried()
    if (!carried) throw new Error('No engine has the run yet.')
    return carried
  }

  async #follow(): Promise<Outcome> {
    const { events, outcome } = this.#parts
    const read = this.#read()
    const lost = outcome.then((end) => (end.status === 'lost' ? end.status : read))
    const status = await Promise.race([read, lost])
    if (status === 'lost') await events.return()
    // A run that was stopped before its engine had it ends with a status alone.
    return Promise.race([outcome, { status }])
  }

  /** Reads every event of the run, to its end. */
  async #read(): Promise<RunEnd['status']> {
    for await (const { event, data } of this.#parts.events) {
      const value = JSON.parse(data)
      if (event === 'done') return value.status
      if (event !== 'run') this.heard.push({ event, data: value })
      for (const wake of this.#waiting) wake()
      this.#waiting.clear()
    }
    throw new Error(`The events of run ${this.runId} ended without "done".`)
  }
}
