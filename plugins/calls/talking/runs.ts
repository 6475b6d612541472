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

/** How many runs that are over are remembered. */
const mostKept = 20

/** The runs of a session that a call has heard of. */
export class Runs {
  readonly #runs = new Map<string, Told>()

  /** A run, from its first event on. */
  of(id: string): Told {
    const found = this.#runs.get(id)
    if (found) return found
    const made: Told = {
      ...{ id, sentences: new Sentences(), isCode: false },
      ...{ isOver: false, isCut: false, moment: undefined },
    }
    this.#runs.set(id, made)
    return made
  }

  /** Whether nothing is under way that would be said. */
  get areOver(): boolean {
    return [...this.#runs.values()].every(({ isOver, isCut }) => isOver || isCut)
  }

  /** The runs that an interruption ends: those under way and those of which something is being said, but for the one that waits. */
  interrupted(said: ReadonlySet<string>, waiting: string | undefined): Told[] {
    return [...this.#runs.values()].filter(
      ({ id, isOver, isCut }) => !isCut && id !== waiting && (!isOver || said.has(id)),
    )
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
