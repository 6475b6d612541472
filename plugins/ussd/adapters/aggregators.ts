import { type Log, type RouteContext, RuntimeError } from '#core'
import { unavailable } from '../request.ts'
import type { Input } from '../session/typed.ts'
import type { Adapter } from './adapter.ts'
import { answerFor, type Body, invalidFor, readCall } from './translate.ts'

/** The part of the gateway that aggregators reach. */
interface Sessions {
  answer(input: Input, audit?: RouteContext['audit']): Promise<string>
  hangUp(sessionId: string, phoneNumber: string): Promise<void>
}

type Answer = string | Record<string, unknown>

/** How long the log says nothing more of one fault of an adapter. */
const silentMs = 60_000
const mostFaults = 200

/** Answers the requests of aggregators through their adapters. */
export class Aggregators {
  readonly #sessions: Sessions
  readonly #log: Log
  /** When the log last told a fault; a wrong adapter fails with every request. */
  readonly #told = new Map<string, number>()
  /** The requests under way that are no repeats by number: copies of them wait for the same answer. */
  readonly #underWay = new Map<string, Promise<string>>()

  constructor(sessions: Sessions, log: Log) {
    this.#sessions = sessions
    this.#log = log
  }

  /** Answers a request; undefined where it only tells that a session has ended. */
  async answer(
    adapter: Adapter,
    body: Body,
    audit: RouteContext['audit'],
  ): Promise<Answer | undefined> {
    const meant = this.#read(adapter, body)
    if (meant.kind === 'invalid') return invalidFor(adapter, body)
    if (meant.kind === 'input')
      return answerFor(adapter, body, await this.#input(meant.input, audit))
    await this.#sessions.hangUp(meant.sessionId, meant.phoneNumber)
    return undefined
  }

  /** The answer when this server or its database fails. */
  sorry(adapter: Adapter, body: Body): Answer {
    return answerFor(adapter, body, unavailable)
  }

  #read(adapter: Adapter, body: Body) {
    try {
      return readCall(adapter, body)
    } catch (thrown) {
      if (thrown instanceof RuntimeError) this.#tell(thrown.message)
      throw thrown
    }
  }

  /** Where the gateway numbers nothing, only a copy that comes while the first one is at work can be told from a new input. */
  #input(input: Input, audit: RouteContext['audit']): Promise<string> {
    if ('text' in input || input.sequence !== undefined) return this.#sessions.answer(input, audit)
    const key = JSON.stringify([input.sessionId, input.phoneNumber, input.input, input.isFirst])
    const known = this.#underWay.get(key)
    if (known) return known
    const answer = this.#sessions.answer(input, audit).finally(() => this.#underWay.delete(key))
    this.#underWay.set(key, answer)
    return answer
  }

  #tell(fault: string): void {
    const now = performance.now()
    if (now - (this.#told.get(fault) ?? -Infinity) < silentMs) return
    if (this.#told.size >= mostFaults) this.#told.clear()
    this.#told.set(fault, now)
    this.#log.warn(fault)
  }
}
