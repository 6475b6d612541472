import { dayOf } from './day.ts'

/** What calls have cost. */
export interface Spent {
  readonly tokens: number
  /** Whole billionths of a US dollar. */
  readonly cost: number
}

/** How many runs are remembered; the oldest goes when there are more. */
const mostRuns = 10_000

interface UnderWay extends Spent {
  readonly did: string
  readonly day: string
}

/** A call that has ended, as far as it is counted here. */
interface Ended {
  readonly did?: string
  readonly runId?: string
  readonly usage: {
    readonly inputTokens: number
    readonly outputTokens: number
    readonly cost?: string | null
  }
}

/**
 * What the runs of this process have cost that no table counts yet: those that are under way, and those whose end is not told
 * yet. Without it a user who sends the next message at once would have a little more than the allowance.
 */
export class RunsUnderWay {
  readonly #runs = new Map<string, UnderWay>()

  /** Adds what a call cost. */
  add({ did, runId, usage }: Ended, now: Date): void {
    if (did === undefined || runId === undefined) return
    const { tokens = 0, cost = 0, day = dayOf(now) } = this.#runs.get(runId) ?? {}
    this.#runs.delete(runId)
    if (this.#runs.size >= mostRuns) {
      const [oldest = ''] = this.#runs.keys()
      this.#runs.delete(oldest)
    }
    this.#runs.set(runId, {
      did,
      day,
      tokens: tokens + usage.inputTokens + usage.outputTokens,
      cost: cost + Number(usage.cost ?? 0),
    })
  }

  /** The runs of a user that began to cost something on this day. */
  idsOf(did: string, day: string): string[] {
    return [...this.#runs].flatMap(([runId, run]) =>
      run.did === did && run.day === day ? [runId] : [],
    )
  }

  /** Forgets runs that a table counts. */
  forget(runIds: Iterable<string>): void {
    for (const runId of runIds) this.#runs.delete(runId)
  }

  /** What these runs have cost together. */
  sumOf(runIds: readonly string[]): Spent {
    let tokens = 0
    let cost = 0
    for (const runId of runIds) {
      tokens += this.#runs.get(runId)?.tokens ?? 0
      cost += this.#runs.get(runId)?.cost ?? 0
    }
    return { tokens, cost }
  }
}
