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
  /** The process is gone: nothing that it does from now on reaches anybody. */
  die(): void
  /** A person presses Stop; the run hears it at once. */
  stop(): void
}

/** What a run of a test stands on. */
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
  /** Its end, when everything was heard; `lost` when its process lost it. */
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

  /** What its engine was handed. */
  get handle(): Run {
    return this.#carried.handle
  }

  /** The process that carries it is gone. */
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

  /** The same, once there are so many. */
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
    // A run that was stopped before its engine had it has no more of an end than this.
    return Promise.race([outcome, { status }])
  }

  /** Hears everything, to the end. */
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
