import { RuntimeError } from '../../../errors.ts'
import type {
  CutReply,
  EnsuredSession,
  FollowedEvent,
  FollowedSession,
  ListedTurns,
  NewTurn,
  OpenSession,
  OpenTurn,
  ReadRun,
  StartedTurn,
  TurnAnswer,
  TurnEvent,
  Turns,
  User,
  WantedTurns,
  WhichTurn,
} from '../../../plugin.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import { asUser } from '../named-user.ts'
import { SessionEvents } from '../events/session-events.ts'
import {
  readAnswer,
  readCut,
  readFollowed,
  readNewTurn,
  readOpen,
  readRun,
  readWanted,
  type ReadTurn,
  readWhich,
} from '../new-turn.ts'
import { fieldsIn } from '../../base/fields.ts'
import { waitingCall } from '../journal/stop.ts'
import type { TurnRequest, WaitingCall } from '../run.ts'
import { closing } from '../sessions/refusals.ts'
import { sessionOfRequest } from '../waiting/look.ts'
import type { WaitingTurns } from '../waiting/waiting-turns.ts'
import type { RunStore } from '../journal/store.ts'
import type { BegunRun, QueuedTurn } from './door.ts'
import { newestBranch } from '../branches/agreement.ts'
import { makeEphemeral } from '../sessions/ephemeral.ts'
import { listTurns, runsToFollow } from './list.ts'
import { continuing, placeTurn, type PlacingParts } from './placing.ts'
import { turnEvents, PluginTurn, type PluginTurnParts, type TakenTurn } from './plugin-turn.ts'
import { timedId } from '../../base/clock.ts'

/** What the turns of a plugin need of the app. */
export interface PluginTurnsParts extends PluginTurnParts, Pick<PlacingParts, 'fork'> {
  readonly waiting: WaitingTurns
  readonly store: RunStore
  readonly rights?: Rights
  /** The user of a DID, with the delegation that the user has stored. */
  restoreUser?(did: string): User | Promise<User>
  checkRequest?(request: TurnRequest): void
}

/** What a run stands still for. */
function standing(runId: string, waits: WaitingCall): OpenTurn['waiting'] {
  const calls = (waits.calls ?? [waits]).map(({ toolCallId, toolName, args }) => ({
    toolCallId,
    toolName,
    args: fieldsIn(args),
  }))
  return { runId, kind: waits.kind ?? 'approval', calls }
}

/** How often a start looks for a session again, when another start has deleted the one that this start found. */
const mostSessions = 3

/** `turns` of one plugin. */
export class PluginTurns implements Turns {
  readonly #parts: PluginTurnsParts

  constructor(parts: PluginTurnsParts) {
    this.#parts = parts
  }

  start(turn: NewTurn): StartedTurn {
    return new PluginTurn(this.#parts, () => this.#begin(turn))
  }

  resume(answer: TurnAnswer): StartedTurn {
    return new PluginTurn(this.#parts, () => this.#goOn(answer))
  }

  events(run: ReadRun): AsyncIterable<TurnEvent> {
    const { runs, plugin } = this.#parts
    return (async function* () {
      const { user, runId, after, signal } = readRun(plugin, run)
      await runs.demand(user.did, runId)
      yield* turnEvents(await runs.subscribe(runId, after), signal)
    })()
  }

  async open(asked: OpenSession): Promise<OpenTurn> {
    const { runs, plugin, store } = this.#parts
    const { user, session, newestBranch: isNewest } = readOpen(plugin, asked)
    await runs.sessions.demand(user.did, session)
    const sessionId = isNewest ? await newestBranch(store.db, user.did, session) : session
    const { run, waiting } = await runs.underway(sessionId)
    const row = waiting && (await store.find(waiting.runId))
    const waits = row && (await waitingCall(store.db, row))
    return {
      sessionId,
      ...(run && { run: { runId: run.runId } }),
      ...(row && waits && { waiting: standing(row.id, waits) }),
    }
  }

  async list(wanted: WantedTurns): Promise<ListedTurns> {
    const { plugin, store } = this.#parts
    return listTurns(store.db, readWanted(plugin, wanted))
  }

  async abort(turn: WhichTurn): Promise<boolean> {
    const { user, session, requestId } = readWhich(this.#parts.plugin, turn)
    return this.#parts.runs.abort(user.did, session, requestId)
  }

  async redact(turn: WhichTurn): Promise<boolean> {
    const { runs, plugin } = this.#parts
    const { user, session, requestId } = readWhich(plugin, turn)
    if (requestId === undefined)
      throw new RuntimeError('INPUT_INVALID', `${plugin} takes words back and names no turn.`, {
        hint: 'Pass the requestId of the turn.',
      })
    await runs.sessions.demand(user.did, session)
    return runs.redact(user.did, session, requestId)
  }

  follow(followed: FollowedSession): AsyncIterable<FollowedEvent> {
    const { runs, plugin, log, store } = this.#parts
    return (async function* () {
      const { user, session: sessionId, signal, since } = readFollowed(plugin, followed)
      await runs.sessions.demand(user.did, sessionId)
      yield* new SessionEvents({
        ...{ sessionId, signal, log },
        watch: (watcher) => runs.watch(sessionId, watcher),
        begun: () => runsToFollow(store, sessionId, since),
        subscribe: (runId, after) => runs.subscribe(runId, after),
      })
    })()
  }

  async cut(reply: CutReply): Promise<boolean> {
    const { runs, plugin } = this.#parts
    const { user, session: sessionId, ...heard } = readCut(plugin, reply)
    await runs.sessions.demand(user.did, sessionId)
    return runs.cut({ did: user.did, sessionId, ...heard })
  }

  async #begin(turn: NewTurn): Promise<TakenTurn> {
    const { runs, plugin, checkRequest } = this.#parts
    await undefined // also what is refused at once is a rejection
    const read = readNewTurn(plugin, turn)
    checkRequest?.(read.request)
    const user = await this.#userOf(read)
    await runs.mayTalk(user) // before a session is made
    const placed = await placeTurn(this.#parts, user, read)
    const { signal, reader } = read
    if ('known' in placed) return { ...this.#takenAs(placed.known, user), signal, reader }
    const begun =
      'turn' in placed
        ? await this.#submit(user, placed.turn)
        : await runs.resume(user, placed.runId, placed.decision, read.requestId)
    return { ...this.#takenAs(begun, user), signal, reader }
  }

  async #goOn(answer: TurnAnswer): Promise<TakenTurn> {
    const { runs, plugin } = this.#parts
    await undefined
    const { runId, decision, requestId, signal, reader, ...who } = readAnswer(plugin, answer)
    const user = await this.#userOf(who)
    const known = requestId && (await continuing(this.#parts.store, user.did, requestId))
    const begun = known || (await runs.resume(user, runId, decision, requestId))
    return { ...this.#takenAs(begun, user), signal, reader }
  }

  /** Who speaks. A plugin that has proof of it may have the turn act under what this user has stored. */
  async #userOf({ user, delegation }: Pick<ReadTurn, 'user' | 'delegation'>): Promise<User> {
    const { rights, restoreUser } = this.#parts
    const stored = delegation === 'stored' && !('can' in user)
    return (stored ? await restoreUser?.(user.did) : undefined) ?? asUser(user, rights)
  }

  async #submit(user: User, read: ReadTurn): Promise<BegunRun | QueuedTurn> {
    const { runs } = this.#parts
    const { requestId = timedId(), whenBusy, request, address, koa } = read
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
    { session: id, room, shared, requestId, request }: ReadTurn,
  ): Promise<EnsuredSession> {
    const { runs, store, plugin } = this.#parts
    const known = requestId && (await sessionOfRequest(store, did, requestId))
    if (known) return { sessionId: known, isNew: false }
    if (request.ephemeral)
      return { sessionId: await makeEphemeral(store, did, plugin), isNew: true }
    if (id === undefined && room === undefined)
      return { sessionId: (await runs.sessions.create(did, { plugin })).sessionId, isNew: true }
    return runs.sessions.ensure(did, { id, room, shared, plugin })
  }

  #takenAs(begun: BegunRun | QueuedTurn, user: User): TakenTurn {
    const { sessionId, requestId } = begun
    if ('waitingId' in begun) {
      const { waitingId, isNew } = begun
      const running = this.#parts.waiting.outcomeOf(waitingId, sessionId, user).then((outcome) => {
        if (outcome === 'closing') throw closing()
        if (typeof outcome === 'object') throw outcome.refused
        return outcome === 'begun' ? waitingId : undefined
      })
      running.catch(() => undefined)
      return { user, begun: { sessionId, requestId, isNew, state: 'queued' }, running }
    }
    const { runId, live } = begun
    const isNew = live !== undefined
    return {
      user,
      begun: { runId, sessionId, requestId, isNew, state: 'running' },
      running: Promise.resolve(runId),
    }
  }
}
