import { RuntimeError } from '../../../errors.ts'
import type {
  BegunTurn,
  EndedTurn,
  Log,
  StartedTurn,
  TurnEvent,
  TurnEvents,
  User,
} from '../../../plugin.ts'
import type { SentEvent } from '../events/reader.ts'
import { closing } from '../sessions/refusals.ts'
import type { TurnDoor } from './door.ts'

/** What one turn of a plugin needs of the app. */
export interface PluginTurnParts {
  readonly runs: TurnDoor
  readonly plugin: string
  readonly log: Log
}

/** A turn in the database. `running` resolves to its run once there is one, and to undefined when there will be none. */
export interface TakenTurn {
  readonly user: User
  readonly begun: BegunTurn
  readonly running: Promise<string | undefined>
  /** Stops the turn. */
  readonly signal?: AbortSignal
  /** Ends the reading of its events. */
  readonly reader?: AbortSignal
}

/** A turn that fails within this time, before it said anything, is refused with its error. */
const firstWordMs = 250
/** Events that are no word. */
const wordless = new Set(['run', 'error', 'model', 'context'])

/** The events of a run as plugins read them. When the signal fires the reading ends, and the run goes on. */
export async function* turnEvents(
  reader: AsyncIterableIterator<SentEvent>,
  signal?: AbortSignal,
): AsyncGenerator<TurnEvent, void, void> {
  const leave = () => void reader.return?.()
  signal?.addEventListener('abort', leave, { once: true })
  if (signal?.aborted) leave()
  try {
    for await (const { id, event, data } of reader)
      if (id !== undefined) yield JSON.parse(`{"seq":${id},"event":"${event}","data":${data}}`)
  } finally {
    signal?.removeEventListener('abort', leave)
  }
}

/** A turn that a plugin started. It goes on whether anybody looks at it or not. */
export class PluginTurn implements StartedTurn {
  readonly begun: Promise<BegunTurn>
  readonly #parts: PluginTurnParts
  readonly #taken: Promise<TakenTurn>
  #ended: Promise<EndedTurn> | undefined
  #spoke: Promise<void> | undefined

  constructor(parts: PluginTurnParts, taking: () => Promise<TakenTurn>) {
    this.#parts = parts
    this.#taken = taking()
    this.begun = this.#taken.then(({ begun }) => begun)
    const mind = ({ signal, user, begun }: TakenTurn) => signal && this.#stopOn(signal, user, begun)
    this.#taken.then(mind, () => undefined)
    // A plugin may never read the turn. The error then goes to the log, and is no unhandled rejection.
    this.begun.catch((err: unknown) =>
      parts.log.warn(
        { ...told(err), plugin: parts.plugin },
        'A turn that a plugin started did not begin',
      ),
    )
  }

  /** Resolves when the turn has ended. The first call begins to read the events. */
  get ended(): Promise<EndedTurn> {
    if (!this.#ended) {
      this.#ended = this.#toItsEnd()
      this.#ended.catch(() => undefined)
    }
    return this.#ended
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent, void, void> {
    const { running, reader } = await this.#taken
    const runId = await running
    if (runId !== undefined) yield* turnEvents(await this.#parts.runs.subscribe(runId), reader)
  }

  /** Resolves when the turn has spoken, or had the time for it. The first call begins to read the events. */
  get spoke(): Promise<void> {
    if (!this.#spoke) {
      this.#spoke = this.#toItsFirstWord()
      this.#spoke.catch(() => undefined)
    }
    return this.#spoke
  }

  async #toItsFirstWord(): Promise<void> {
    const runId = await (await this.#taken).running
    if (runId === undefined) return
    const over = new AbortController()
    const timer = setTimeout(() => over.abort(), firstWordMs)
    let failure: TurnEvents['error'] | undefined
    try {
      for await (const { event, data } of turnEvents(
        await this.#parts.runs.subscribe(runId),
        over.signal,
      )) {
        if (event === 'error') failure = data
        else if (event === 'done' && data.status === 'failed' && failure)
          throw new RuntimeError(failure.code, failure.error, { status: failure.statusCode })
        else if (!wordless.has(event)) return
      }
    } finally {
      clearTimeout(timer)
    }
  }

  /** Stops the turn when the signal fires, until the turn has come to its end. */
  #stopOn(signal: AbortSignal, { did }: User, { sessionId, requestId }: BegunTurn): void {
    const { runs, log } = this.#parts
    const stop = () =>
      runs
        .abort(did, sessionId, requestId)
        .catch((err: unknown) =>
          log.warn({ err, requestId }, 'A turn that a plugin stops may go on'),
        )
    if (signal.aborted) return void stop()
    signal.addEventListener('abort', stop, { once: true })
    // A turn that waits for a person ends with `waiting`, and can be stopped all the same.
    const letGo = ({ status }: EndedTurn) => {
      if (status !== 'waiting') signal.removeEventListener('abort', stop)
    }
    this.ended.then(letGo, () => undefined)
  }

  async #toItsEnd(): Promise<EndedTurn> {
    const { running } = await this.#taken
    let runId: string | undefined
    try {
      runId = await running
    } catch (refused) {
      if (!(refused instanceof RuntimeError) || refused.status >= 500) throw refused
      const { code, message } = refused
      return { status: 'failed', text: '', error: { code, message } }
    }
    // The turn was taken away while it waited.
    if (runId === undefined) return { status: 'aborted', text: '' }
    let text = ''
    let error: EndedTurn['error']
    for await (const { event, data } of turnEvents(await this.#parts.runs.subscribe(runId))) {
      if (event === 'message') text += data.content
      else if (event === 'run' && data.resumed) text = text.slice(0, data.partialLength)
      else if (event === 'error') error = { code: data.code, message: data.error }
      else if (event === 'done') {
        const { status, ended } = data
        return { status, text, ...(error && { error }), ...(ended && { ended }) }
      }
    }
    throw closing()
  }
}

/** What the log hears of a turn that did not begin. The message of a refusal may repeat what a person sent: the code is enough. */
const told = (err: unknown) =>
  err instanceof RuntimeError && err.status < 500 ? { code: err.code } : { err }
