import { RuntimeError } from '../../../errors.ts'
import type { Followers } from '../events/followers.ts'
import { EventReader, type SentEvent } from '../events/reader.ts'
import { EventWindow } from '../events/window.ts'
import type { RunEvent } from '../journal/event-lines.ts'
import type { RunStore } from '../journal/store.ts'
import type { Audience } from '../clients/audience.ts'
import type { Carrier } from './carrier.ts'
import { gone, isStillOpen } from '../sessions/refusals.ts'

/** The parts from which the events of a run are read, and the audience that its readers make up. */
export interface ReadersOptions {
  readonly store: RunStore
  readonly carrier: Carrier
  readonly followers: Followers
  readonly audience: Audience
  /** Hears what other replicas say of a session, until the function that this returns is called. */
  interest(sessionId: string): () => void
}

/** What a reader knows of its run. */
interface ReadRun {
  readonly runId: string
  readonly sessionId: string
  readonly requestId: string
}

/** Everybody in this process who reads the events of a run. */
export class Readers {
  readonly #options: ReadersOptions
  readonly #reading = new Set<EventReader>()
  #closing = false

  constructor(options: ReadersOptions) {
    this.#options = options
  }

  /**
   * Reads a run's events after a number, old and new, up to its end. A reader that attends can carry out
   * the client's own tools.
   */
  async subscribe(runId: string, after: number, attends: boolean): Promise<EventReader> {
    const { store, carrier } = this.#options
    const live = carrier.live.get(runId)
    if (live) return this.#read(live, after, attends)
    const run = await store.find(runId)
    if (!run) throw new RuntimeError('NOT_FOUND', `There is no run "${runId}".`)
    if (run.purged) throw gone(runId)
    // A reader that asks for events after the end gets `done` once more.
    const last = isStillOpen(run) ? after : Math.min(after, run.last_seq - 1)
    const { session_id: sessionId, request_id: requestId } = run
    return this.#read({ runId, sessionId, requestId }, last, attends)
  }

  /** Tells every reader, and every one that comes later, to go on at another server: this server closes. */
  handOver(): void {
    this.#closing = true
    for (const reader of this.#reading) reader.handOver()
  }

  #read({ runId, sessionId, requestId }: ReadRun, after: number, attends: boolean): EventReader {
    const { store, audience, interest } = this.#options
    const leaving = attends ? [audience.enter(runId), interest(sessionId)] : []
    const reader = new EventReader(
      {
        window: () => this.#windowOf(runId),
        page: (from) => store.eventsAfter(runId, from),
        farewell: () => farewell(runId, requestId),
        onLeave: (left) => {
          this.#reading.delete(left)
          for (const leave of leaving) leave()
        },
      },
      after,
    )
    this.#reading.add(reader)
    if (this.#closing) reader.handOver()
    return reader
  }

  async #windowOf(runId: string): Promise<EventWindow> {
    const { store, carrier, followers } = this.#options
    const live = carrier.live.get(runId)
    if (live) return live.feed.window
    const run = await store.find(runId)
    if (run && isStillOpen(run))
      return (
        carrier.live.get(runId)?.feed.window ??
        followers.windowOf(run.session_id, runId, run.last_seq)
      )
    const window = new EventWindow(run?.last_seq ?? 0)
    // The run's session was deleted: a last event tells readers that no more comes.
    if (!run) window.push([deleted(runId)])
    window.end()
    return window
  }
}

/** The last event of a stream whose server closes: the client goes on with another. */
const farewell = (runId: string, requestId: string): SentEvent => ({
  event: 'run',
  data: JSON.stringify({ runId, requestId, handover: true }),
})

const deleted = (runId: string): RunEvent => ({
  id: Number.MAX_SAFE_INTEGER,
  event: 'done',
  data: JSON.stringify({ runId, status: 'aborted' }),
})
