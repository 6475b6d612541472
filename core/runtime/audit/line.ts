import type { AuditFacts } from '../../plugin.ts'

/**
 * How a write ended. `accepted`: the write happened. `refused`: the caller may not do it or asked wrongly. `failed`: a fault
 * of the server. `rejected`: a person who was asked said no. `unknown`: nobody can say whether the write happened.
 */
export type Outcome = 'accepted' | 'refused' | 'failed' | 'rejected' | 'unknown'

/** One write: who wrote, by which route or tool, what, and how the write ended. A line has ids and no contents. */
export interface AuditLine {
  readonly who: string
  /** The route of the write: `POST /notes`. A line has a route, a tool or a task. */
  readonly route?: string
  /** The name of the tool. */
  readonly tool?: string
  /** What the process did without a caller. */
  readonly task?: string
  /** The ids of what was written. */
  readonly what: Readonly<Record<string, string | number>>
  readonly outcome: Outcome
  /** The status of the HTTP answer. */
  readonly status?: number
  /** The code of the error, when there was one. */
  readonly code?: string
  readonly requestId?: string
  readonly sessionId?: string
  readonly runId?: string
  readonly callId?: string
}

const mostFacts = 16
const longestName = 40
const longestValue = 200

/** The ids for one call's audit line. How many there are and how long they are is bounded. */
export class Facts {
  /** Who wrote, when the handler says so. */
  who: string | undefined
  readonly #what = new Map<string, string | number>()

  /** Adds facts. A later fact replaces an earlier one of the same name, because the handler knows more than the path. */
  add(facts: AuditFacts): void {
    for (const [name, value] of Object.entries(facts)) {
      if (value === undefined || name.length > longestName) continue
      if (name === 'who') {
        this.who = shortened(value)
        continue
      }
      if (this.#what.size >= mostFacts && !this.#what.has(name)) return
      this.#what.set(name, typeof value === 'number' ? value : shortened(value))
    }
  }

  /** Whether there are no facts, apart from `who`. */
  get isEmpty(): boolean {
    return this.#what.size === 0
  }

  /** The facts without `who`. */
  get what(): Readonly<Record<string, string | number>> {
    return Object.fromEntries(this.#what)
  }
}

/** A value as the text of an id. A text that is too long for an id may be anything, even a token, so only its length is kept. */
export function shortened(value: unknown): string {
  const text = typeof value === 'string' ? value : String(value)
  return text.length <= longestValue
    ? text.toWellFormed().replaceAll('\0', '')
    : `(${text.length} characters)`
}

/** The outcome of a write whose answer has this status. */
export const outcomeOf = (status: number): Outcome =>
  status < 400 ? 'accepted' : status < 500 ? 'refused' : 'failed'
