import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import type { FollowedEvent, Log } from '../../../plugin.ts'
import type { SentEvent } from './reader.ts'
import type { ClosedRun, SessionCut } from './watchers.ts'

/** How many runs may wait for a follower that reads too slowly, before the following ends. */
export const mostBehind = 100
/** How long to wait with a run whose events cannot be read just now. */
const pauseMs = 1_000

/** What follows a session. */
export interface FollowingParts {
  readonly sessionId: string
  readonly signal?: AbortSignal
  readonly log: Log
  watch(watcher: {
    onRun(runId: string): void
    onDeleted(): void
    onCut(cut: SessionCut): void
    onClosed(run: ClosedRun): void
  }): () => void
  /** The ids of the runs that are told first. */
  begun(): Promise<readonly string[]>
  subscribe(runId: string, after: number): Promise<AsyncIterableIterator<SentEvent>>
}

/** Follows every run of a session, one after the other, whichever process carries it. */
export class SessionEvents {
  readonly #parts: FollowingParts
  /** The runs that are still to be read, those that were named already, and what happened meanwhile to those before them. */
  readonly #runs: string[] = []
  readonly #named = new Set<string>()
  readonly #meanwhile: FollowedEvent[] = []
  #wake = () => {}
  #isOver = false

  constructor(parts: FollowingParts) {
    this.#parts = parts
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FollowedEvent, void, void> {
    const { sessionId, signal, watch, begun } = this.#parts
    const end = () => this.#end()
    if (signal?.aborted) end()
    signal?.addEventListener('abort', end, { once: true })
    const leave = watch({
      onRun: (runId) => this.#name(runId),
      onDeleted: end,
      onCut: (cut) => this.#tell(cutEvent(cut)),
      onClosed: (run) => this.#tell(closedEvent(run, sessionId)),
    })
    try {
      for (const runId of await begun()) this.#name(runId)
      while (!this.#isOver) {
        yield* this.#meanwhile.splice(0)
        const next = this.#runs.shift()
        if (next !== undefined) yield* this.#run(next)
        else if (this.#meanwhile.length === 0 && !this.#isOver) await this.#untilWoken()
      }
    } finally {
      leave()
      signal?.removeEventListener('abort', end)
    }
  }

  /** The events of one run to its end. */
  async *#run(runId: string): AsyncGenerator<FollowedEvent, void, void> {
    const place = { seq: 0, requestId: '' }
    while (!this.#isOver)
      try {
        return yield* this.#readOn(runId, place)
      } catch (error) {
        if (error instanceof RuntimeError && error.status < 500) return // the run is gone
        this.#parts.log.warn({ err: error, runId }, 'Who follows a session waits for its events')
        await this.#untilWoken(sleep(pauseMs, undefined, { ref: false }))
      }
  }

  async *#readOn(
    runId: string,
    place: { seq: number; requestId: string },
  ): AsyncGenerator<FollowedEvent, void, void> {
    const reader = await this.#parts.subscribe(runId, place.seq)
    const ask = () => {
      const asked: { got?: IteratorResult<SentEvent> } = {}
      const settled = reader.next().then((got) => void (asked.got = got))
      return { asked, settled }
    }
    try {
      for (let { asked, settled } = ask(); !this.#isOver;) {
        yield* this.#meanwhile.splice(0)
        if (!asked.got && this.#meanwhile.length === 0) await this.#untilWoken(settled)
        const { got } = asked
        if (!got) continue
        if (got.done) return
        const { id, event, data } = got.value
        if (id === undefined) return this.#end() // the server closes
        place.seq = id
        if (event === 'run') place.requestId ||= JSON.parse(data).requestId
        const facts = JSON.stringify({ runId, requestId: place.requestId, event }).slice(0, -1)
        yield JSON.parse(`${facts},"data":${data}}`)
        ;({ asked, settled } = ask())
      }
    } finally {
      await reader.return?.()
    }
  }

  #tell(event: FollowedEvent): void {
    if (this.#meanwhile.push(event) > mostBehind) this.#end()
    else this.#wake()
  }

  #name(runId: string): void {
    if (this.#named.has(runId)) return
    this.#named.add(runId)
    const [oldest] = this.#named
    if (this.#named.size > mostBehind && oldest !== undefined) this.#named.delete(oldest)
    if (this.#runs.push(runId) > mostBehind) this.#end()
    else this.#wake()
  }

  #end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** Resolves when something happens in the session, when the following ends, or with `other`. */
  #untilWoken(other?: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#wake = resolve
      if (this.#isOver) resolve()
      other?.then(resolve, reject)
    })
  }
}

const cutEvent = ({ runId, requestId, messageId, chars }: SessionCut): FollowedEvent => ({
  runId,
  requestId,
  event: 'cut',
  data: { runId, ...(messageId !== undefined && { messageId }), chars },
})

/** A run that waited for a person has told its end, which is not its last word: it is over now. */
const closedEvent = (
  { runId, requestId, status }: ClosedRun,
  sessionId: string,
): FollowedEvent => ({ runId, requestId, event: 'done', data: { runId, sessionId, status } })
