import { Sentences } from './sentences.ts'

/** A run of the session, as far as it was heard of. */
export interface Told {
  readonly id: string
  readonly sentences: Sentences
  isCode: boolean
  isOver: boolean
  /** The person interrupted it: nothing more of it is said. */
  isCut: boolean
  /** Excuses a tool that is slow. */
  moment: NodeJS.Timeout | undefined
}

/** Words that become a turn: there is no run of them yet. */
export interface OpenWords {
  readonly requestId: string
  /** The run of them, where it is heard of before the answer that it has begun. */
  run: Told | undefined
  /** The person went on speaking, or said stop: the turn ends as soon as it has begun. */
  isCut: boolean
}

/** How many runs that are over are remembered. */
const mostKept = 20

/** The runs of a session that a call has heard of. */
export class Runs {
  readonly #runs = new Map<string, Told>()
  readonly #beginnings = new Set<OpenWords>()

  /** A run, from its first event on. The events of a turn may come before the answer that it has begun. */
  of(id: string, requestId?: string): Told {
    const found = this.#runs.get(id)
    if (found) return found
    const beginning = [...this.#beginnings].find((one) => one.requestId === requestId)
    const made: Told = {
      ...{ id, sentences: new Sentences(), isCode: false },
      ...{ isOver: false, isCut: beginning?.isCut ?? false, moment: undefined },
    }
    if (beginning) beginning.run = made
    this.#runs.set(id, made)
    return made
  }

  /** Something was said that becomes a turn. */
  begin(requestId: string): OpenWords {
    const beginning = { requestId, run: undefined, isCut: false }
    this.#beginnings.add(beginning)
    return beginning
  }

  /** The turn has begun, or it waits, or it was refused: from now on it is known by its run alone. */
  begun(beginning: OpenWords, runId?: string): Told | undefined {
    const run = runId === undefined ? undefined : this.of(runId, beginning.requestId)
    this.#beginnings.delete(beginning)
    return run
  }

  /** What is about to begin is to end as soon as it has begun. Answers whether there was anything. */
  cutBeginnings(): boolean {
    const open = this.#open
    for (const one of open) one.isCut = true
    return open.length > 0
  }

  /** What is about to begin, and is not heard of yet. */
  get #open(): OpenWords[] {
    return [...this.#beginnings].filter(({ isCut, run }) => !isCut && !run)
  }

  /** Whether nothing is under way that would be said, and nothing is about to begin. */
  get areOver(): boolean {
    return (
      this.#open.length === 0 &&
      [...this.#runs.values()].every(({ isOver, isCut }) => isOver || isCut)
    )
  }

  /** The run that was heard of last. */
  get last(): Told | undefined {
    return [...this.#runs.values()].at(-1)
  }

  /** Silences the runs that somebody speaks over: those under way and those that are being said, but for the one that waits. */
  interrupt(said: ReadonlySet<string>, waiting: string | undefined): Told[] {
    const open = [...this.#runs.values()].filter(
      ({ id, isOver, isCut }) => !isCut && id !== waiting && (!isOver || said.has(id)),
    )
    for (const run of open) this.silence(run)
    return open
  }

  /** Nothing more of a run is said. */
  silence(run: Told): void {
    run.isCut = true
    clearTimeout(run.moment)
  }

  /** Forgets the oldest that are over. */
  tidy(): void {
    for (const [id, { isOver }] of this.#runs)
      if (isOver && this.#runs.size > mostKept) this.#runs.delete(id)
  }

  close(): void {
    for (const { moment } of this.#runs.values()) clearTimeout(moment)
  }
}
