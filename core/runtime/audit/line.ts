import type { AuditFacts } from '../../plugin.ts'

/**
 * How a write ended: `refused` is the caller's doing, `failed` ours, `rejected` a person's who was asked; of an
 * `unknown` one nobody can say whether it happened.
 */
export type Outcome = 'accepted' | 'refused' | 'failed' | 'rejected' | 'unknown'

/** One write: who, by which route or tool, what, and how it ended. Ids and nothing else. */
export interface AuditLine {
  readonly who: string
  /** `POST /notes`; a line has this, or a tool's name, or what the process itself was asked to do. */
  readonly route?: string
  readonly tool?: string
  readonly task?: string
  readonly what: Readonly<Record<string, string | number>>
  readonly outcome: Outcome
  /** What the HTTP answer said. */
  readonly status?: number
  /** The error's code, where there is one. */
  readonly code?: string
  readonly requestId?: string
  readonly sessionId?: string
  readonly runId?: string
  readonly callId?: string
}

const mostFacts = 16
const longestName = 40
const longestValue = 200

/** The ids that one call leaves behind, however much its handler and its caller put there. */
export class Facts {
  who: string | undefined
  readonly #what = new Map<string, string | number>()

  /** A later fact takes the place of an earlier one of its name: the handler knows better than the path. */
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

  get isEmpty(): boolean {
    return this.#what.size === 0
  }

  get what(): Readonly<Record<string, string | number>> {
    return Object.fromEntries(this.#what)
  }
}

/** A text as long as no id is may hold anything, a token for one: only its length is told. */
export function shortened(value: unknown): string {
  const text = typeof value === 'string' ? value : String(value)
  return text.length <= longestValue
    ? text.toWellFormed().replaceAll('\0', '')
    : `(${text.length} characters)`
}

/** How an answer of this status ended the write. */
export const outcomeOf = (status: number): Outcome =>
  status < 400 ? 'accepted' : status < 500 ? 'refused' : 'failed'
