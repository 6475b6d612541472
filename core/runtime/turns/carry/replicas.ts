import type { Log } from '../../../plugin.ts'
import type { Store } from '../../store/store.ts'
import { runChannel } from '../journal/write.ts'

/**
 * What replicas tell each other, each word with the ids that it is about. `events`, `ended` and `began` are told by the
 * statements that write events, ends and beginnings; this process tells the others.
 */
export type Word =
  /** Runs have new events in the database. */
  | 'events'
  /** A run has ended. */
  | 'ended'
  /** A run has begun: its id, then its session's. */
  | 'began'
  /** A user stopped a run. */
  | 'aborted'
  /** A newer message took the place of a run. */
  | 'superseded'
  /** A client answered a call of a run. */
  | 'answered'
  /** A run looks for a client that can carry out its calls: the run's id, then its session's. */
  | 'wanted'
  /** A client is there for the run that looked for one. */
  | 'here'
  /** A run looks for a socket of its session that shows approvals. */
  | 'asks'
  /** A socket of the session shows approvals. */
  | 'shows'
  /** Runs were released and may be taken over. */
  | 'free'
  /** A session was deleted. */
  | 'deleted'
  /** Words of a session were taken back. */
  | 'redacted'
  /** A turn that waited was taken away. */
  | 'left'

/** What a process does when it hears a word. */
export type Hearing = Readonly<Record<Word, (ids: readonly string[]) => void>>

/** What replicas need to tell and hear. */
export interface ReplicasOptions {
  readonly store: Pick<Store, 'kind' | 'listen' | 'notify'>
  readonly log: Log
}

const isHeard = (hearing: Hearing, word: string): word is Word => Object.hasOwn(hearing, word)

/**
 * The other processes on the same database, and how this one wakes them. Words may be lost: each process looks into the
 * database anyway, only later. SQLite has one process, which tells nothing.
 */
export class Replicas {
  readonly #store: ReplicasOptions['store']
  readonly #log: Log
  #stopListening: (() => Promise<void>) | undefined

  constructor({ store, log }: ReplicasOptions) {
    this.#store = store
    this.#log = log
  }

  /** Whether there can be other replicas. */
  get canBe(): boolean {
    return this.#store.kind === 'postgres'
  }

  /** Begins to listen. `missed` is called after the connection broke: what others told meanwhile is lost. */
  async open(hearing: Hearing, missed: () => void): Promise<void> {
    if (!this.canBe) return
    const hear = (payload: string) => {
      const [word = '', ...ids] = payload.split(' ')
      // Another version of the runtime may know words that this one does not.
      if (isHeard(hearing, word)) hearing[word](ids)
    }
    this.#stopListening = await this.#store.listen(runChannel, hear, missed)
  }

  /** Tells the other replicas. */
  tell(word: Word, ...ids: readonly string[]): void {
    if (!this.canBe) return
    this.#store.notify(runChannel, [word, ...ids].join(' ')).catch((error: unknown) => {
      this.#log.debug({ err: error }, 'Other replicas were not told')
    })
  }

  /** Stops listening. */
  async close(): Promise<void> {
    await this.#stopListening?.()
  }
}
