import type { RunStore } from '../journal/store.ts'
import type { SessionCut, Watchers } from '../events/watchers.ts'
import { Cutter, type Heard } from './cutter.ts'
import { Redactor } from './redactor.ts'

/** What takes words back, and who hears of it. */
export interface TakingBackOptions {
  readonly store: RunStore
  /** Stops a turn, also one that waits for its beginning or for a person. */
  abort(did: string, sessionId: string, requestId: string): Promise<boolean>
  /** The runs that this process carries. */
  readonly live: ReadonlyMap<string, { stopAfterWrites(): void }>
  readonly watchers: Watchers
  /** Tells the other replicas that have to do with a session. */
  readonly replicas: {
    tell(sessionId: string, word: 'settles' | 'redacted' | 'cut', ...ids: readonly string[]): void
  }
  /** Called when words of a session are gone: whoever remembers the conversation has to read it again. */
  onRedacted?(sessionId: string): void
}

/** Takes words back that were said: a whole turn, or the part of a reply that nobody heard. */
export class TakingBack {
  readonly #options: TakingBackOptions
  readonly #redactor: Redactor
  readonly #cutter: Cutter

  constructor(options: TakingBackOptions) {
    const { live, replicas, ...rest } = options
    this.#options = options
    this.#redactor = new Redactor({ ...rest, onRedacted: (sessionId) => this.#changed(sessionId) })
    this.#cutter = new Cutter({
      ...rest,
      stopAfterWrites: (sessionId, runId) => {
        const run = live.get(runId)
        if (run) run.stopAfterWrites()
        else replicas.tell(sessionId, 'settles', runId)
      },
      onCut: (sessionId, cut) => this.#cut(sessionId, cut),
    })
  }

  /** Takes the words of a turn back; false where the user has no turn of this request in the session. */
  redact(did: string, sessionId: string, requestId: string): Promise<boolean> {
    return this.#redactor.redact(did, sessionId, requestId)
  }

  /** Ends a reply where its user stopped listening; false where nothing was cut off. */
  cut(heard: Heard): Promise<boolean> {
    return this.#cutter.cut(heard)
  }

  #changed(sessionId: string): void {
    const { onRedacted, replicas } = this.#options
    onRedacted?.(sessionId)
    replicas.tell(sessionId, 'redacted', sessionId)
  }

  #cut(sessionId: string, cut: SessionCut): void {
    const { watchers, replicas } = this.#options
    this.#changed(sessionId)
    watchers.cut(sessionId, cut)
    const { runId, requestId, chars, messageId = '' } = cut
    replicas.tell(sessionId, 'cut', sessionId, runId, requestId, String(chars), messageId)
  }
}
