import type { Mark, Root } from './queries.ts'

/** Of so many runs, the newest, a process remembers who has to hear of the end; those of the others are looked for. */
const mostRuns = 5_000

/**
 * Who has to hear of the ends of the runs that this process has recorded. It only spares a look at the database: whether a
 * row is there says the transaction that tells of the end.
 */
export class Expected {
  readonly #byRun = new Map<string, readonly string[]>()

  note({ root_id }: Root, consumers: readonly string[]): void {
    this.#byRun.set(root_id, consumers)
    if (this.#byRun.size <= mostRuns) return
    for (const oldest of this.#byRun.keys()) {
      this.#byRun.delete(oldest)
      break
    }
  }

  /** The rows of a run that has ended, as they were written; undefined where this process does not know. */
  take({ session_id, root_id }: Root): readonly Mark[] | undefined {
    const consumers = this.#byRun.get(root_id)
    this.#byRun.delete(root_id)
    return consumers?.map((consumer) => ({ session_id, root_id, consumer, tries: 0, facts: null }))
  }
}
