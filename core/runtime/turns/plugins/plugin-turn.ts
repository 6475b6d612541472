import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type {
  BegunTurn,
  EndedTurn,
  EnsuredSession,
  Log,
  NewTurn,
  StartedTurn,
  TurnEvent,
  User,
} from '../../../plugin.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import type { RunStore } from '../journal/store.ts'
import { type ReadTurn, readNewTurn } from '../new-turn.ts'
import type { TurnRequest } from '../run.ts'
import { sessionOfRequest } from '../waiting/look.ts'
import type { WaitingTurns } from '../waiting/waiting-turns.ts'
import type { BegunRun, QueuedTurn, TurnDoor } from './door.ts'
import { closing } from '../sessions/refusals.ts'
import { asUser } from '../named-user.ts'

/** What a plugin's turn needs of the app. */
export interface PluginTurnParts {
  readonly runs: TurnDoor
  readonly waiting: WaitingTurns
  readonly store: RunStore
  readonly plugin: string
  readonly rights?: Rights
  readonly log: Log
  checkRequest?(request: TurnRequest): void
}

/** A turn in the database. `running` resolves to its run once there is one, and to undefined when there will be none. */
interface Taken {
  readonly begun: BegunTurn
  readonly running: Promise<string | undefined>
}

/** How often a start looks for a session again, when another start has deleted the one that this start found. */
const mostSessions = 3

/** A turn that a plugin started. It goes on whether anybody looks at it or not. */
export class PluginTurn implements StartedTurn {
  readonly begun: Promise<BegunTurn>
  readonly #parts: PluginTurnParts
  readonly #taken: Promise<Taken>
  #ended: Promise<EndedTurn> | undefined

  constructor(parts: PluginTurnParts, turn: NewTurn) {
    this.#parts = parts
    this.#taken = this.#take(turn)
    this.begun = this.#taken.then(({ begun }) => begun)
    // A plugin may never read the turn. The error then goes to the log, and is no unhandled rejection.
    this.begun.catch((err: unknown) =>
      parts.log.warn({ err, plugin: parts.plugin }, 'A turn that a plugin started did not begin'),
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
    const runId = await (await this.#taken).running
    if (runId === undefined) return
    for await (const { id, event, data } of await this.#parts.runs.subscribe(runId))
      if (id !== undefined) yield JSON.parse(`{"seq":${id},"event":"${event}","data":${data}}`)
  }

  async #take(turn: NewTurn): Promise<Taken> {
    const { runs, plugin, rights, checkRequest } = this.#parts
    await undefined // also what is refused at once is a rejection
    const read = readNewTurn(plugin, turn)
    checkRequest?.(read.request)
    const user = asUser(read.user, rights)
    await runs.mayTalk(user) // before a session is made
    const taken = this.#takenAs(await this.#submit(user, read), user)
    if (read.signal) this.#stopOn(read.signal, user, taken.begun)
    return taken
  }

  async #submit(user: User, read: ReadTurn): Promise<BegunRun | QueuedTurn> {
    const { runs } = this.#parts
    const { requestId = randomUUID(), whenBusy, request, address, koa } = read
    for (let left = mostSessions; ; left--) {
      const { sessionId, isNew } = await this.#sessionFor(user, read)
      let begun: BegunRun | QueuedTurn | undefined
      try {
        begun = await runs.submit({
          user,
          sessionId,
          requestId,
          request,
          address,
          koa,
          whenBusy: whenBusy === 'interrupt' ? undefined : whenBusy,
        })
        return begun
      } catch (error) {
        // Another start made the session, was refused, and deleted the session again.
        const isLost = error instanceof RuntimeError && error.code === 'NOT_FOUND'
        if (!isLost || left <= 1 || (await runs.sessions.isOwn(user.did, sessionId))) throw error
      } finally {
        // Another start with the same name was faster, or the turn was refused: the session that was made for it is deleted again.
        if (isNew && begun?.sessionId !== sessionId)
          await runs.discardSession(user.did, sessionId).catch(() => undefined)
      }
    }
  }

  /** The session in which the turn belongs: that of the first turn of this name, the one that is named, or a new one. */
  async #sessionFor(
    { did }: User,
    { session: id, room, shared, requestId }: ReadTurn,
  ): Promise<EnsuredSession> {
    const { runs, store, plugin } = this.#parts
    const known = requestId && (await sessionOfRequest(store, did, requestId))
    if (known) return { sessionId: known, isNew: false }
    if (id === undefined && room === undefined)
      return { sessionId: (await runs.sessions.create(did, plugin)).sessionId, isNew: true }
    return runs.sessions.ensure(did, { id, room, shared, plugin })
  }

  #takenAs(begun: BegunRun | QueuedTurn, user: User): Taken {
    const { sessionId, requestId } = begun
    if ('waitingId' in begun) {
      const { waitingId, isNew } = begun
      const running = this.#parts.waiting.outcomeOf(waitingId, sessionId, user).then((outcome) => {
        if (outcome === 'closing') throw closing()
        if (typeof outcome === 'object') throw outcome.refused
        return outcome === 'begun' ? waitingId : undefined
      })
      running.catch(() => undefined)
      return { begun: { sessionId, requestId, isNew, state: 'queued' }, running }
    }
    const { runId, live } = begun
    const isNew = live !== undefined
    return {
      begun: { runId, sessionId, requestId, isNew, state: 'running' },
      running: Promise.resolve(runId),
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
    for await (const { event, data } of this) {
      if (event === 'message') text += data.content
      else if (event === 'run' && data.resumed) text = text.slice(0, data.partialLength)
      else if (event === 'error') error = { code: data.code, message: data.error }
      else if (event === 'done') return { status: data.status, text, ...(error && { error }) }
    }
    throw closing()
  }
}
