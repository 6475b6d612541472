import type { Log } from '../../../plugin.ts'
import type { Store } from '../../store/store.ts'
import { Interests } from '../../store/channels/interests.ts'
import { channelOfRun, channelOfSession, runChannel } from '../journal/write.ts'

/**
 * What replicas tell each other, each word with the ids that it is about: `events` to those who follow a run, `free` to all,
 * and everything else to those who have to do with a session. `events`, `ended` and `began` are told by the statements that
 * write events, ends and beginnings; this process tells the others.
 */
export type Word =
  /** Runs have new events in the database. */
  | 'events'
  /** A run has ended. Of one that waited for a person: its session, its run, its request and how it ended. */
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
  /** A reply was cut: its session, its run, its request, how many characters are left, and the message that ends there. */
  | 'cut'
  /** A run is to be stopped once the writes have ended that its tools have begun. */
  | 'settles'
  /** A turn that waited was taken away. */
  | 'left'
  /** A replica has readers of a run. */
  | 'follows'

/** What a process does when it hears a word. */
export type Hearing = Readonly<Record<Word, (ids: readonly string[]) => void>>

/** What replicas need to tell and hear. */
export interface ReplicasOptions {
  readonly store: Pick<Store, 'kind' | 'listen' | 'notify'>
  readonly log: Log
}

/** How long somebody waits until a channel is heard; who asks the database after that may have missed what was told before. */
const readyMs = 1_000

const isHeard = (hearing: Hearing, word: string): word is Word => Object.hasOwn(hearing, word)

/**
 * The other processes on the same database, and how this one wakes them. Words may be lost: each process looks into the
 * database anyway, only later. SQLite has one process, which tells nothing.
 */
export class Replicas {
  readonly #store: ReplicasOptions['store']
  readonly #log: Log
  readonly #interests: Interests
  #hearing: Hearing | undefined
  #stopListening: (() => Promise<void>) | undefined

  constructor({ store, log }: ReplicasOptions) {
    this.#store = store
    this.#log = log
    this.#interests = new Interests(
      (...to) => store.listen(...to),
      (payload) => this.#hear(payload),
      log,
    )
  }

  /** Whether there can be other replicas. */
  get canBe(): boolean {
    return this.#store.kind === 'postgres'
  }

  /** Begins to listen. `missed` is called after the connection broke: what others told meanwhile is lost. */
  async open(hearing: Hearing, missed: () => void): Promise<void> {
    if (!this.canBe) return
    this.#hearing = hearing
    const hear = (payload: string) => this.#hear(payload)
    this.#stopListening = await this.#store.listen(runChannel, hear, missed)
  }

  /** Hears what others say of a session, until the function that this returns is called. `onReady` is called when it is heard. */
  session(sessionId: string, onReady?: () => void): () => void {
    return this.canBe ? this.#interests.enter(channelOfSession(sessionId), onReady) : () => {}
  }

  /** The same for the events of a run that another process carries. */
  run(runId: string, onReady: () => void): () => void {
    return this.canBe ? this.#interests.enter(channelOfRun(runId), onReady) : () => {}
  }

  /** Resolves once what others say of a session is heard, or after a time. */
  ready(sessionId: string): Promise<void> {
    return this.#interests.ready(channelOfSession(sessionId), readyMs)
  }

  /** Tells all other replicas that runs are free. */
  tellFree(): void {
    this.#tell(runChannel, 'free')
  }

  /** Tells the replicas that have to do with a session. */
  tell(sessionId: string, word: Word, ...ids: readonly string[]): void {
    this.#tell(channelOfSession(sessionId), [word, ...ids].join(' '))
  }

  /** Stops listening. */
  async close(): Promise<void> {
    await this.#interests.close()
    await this.#stopListening?.()
  }

  #tell(channel: string, payload: string): void {
    if (!this.canBe) return
    this.#store.notify(channel, payload).catch((error: unknown) => {
      this.#log.debug({ err: error }, 'Other replicas were not told')
    })
  }

  #hear(payload: string): void {
    const [word = '', ...ids] = payload.split(' ')
    // Another version of the runtime may know words that this one does not.
    if (this.#hearing && isHeard(this.#hearing, word)) this.#hearing[word](ids)
  }
}
