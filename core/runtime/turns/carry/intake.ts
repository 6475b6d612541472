import { RuntimeError } from '../../../errors.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import type { RunCause, User } from '../../../plugin.ts'
import { roomNameOf } from '../../base/room-name.ts'
import { tellClosed } from '../events/closed.ts'
import type { RunNews } from '../events/news.ts'
import type { Followers } from '../events/followers.ts'
import type { Watchers } from '../events/watchers.ts'
import { type Beginning, type Begun, beginRun, leaveQueue } from '../journal/begin.ts'
import type { RunGates } from '../gates/gates.ts'
import type { Settler } from '../gates/settler.ts'
import { releaseRuns } from '../journal/leases.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { TraceSpan } from '../../telemetry/span.ts'
import type { Telemetry } from '../../telemetry/telemetry.ts'
import { requestSpan } from '../../http/answer/request-spans.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import { busyRetrySeconds, dayNameOf, type Seats } from '../limits.ts'
import type { TurnRequest } from '../run.ts'
import { sessionOfRequest, type WaitingTurn } from '../waiting/look.ts'
import type { Attempted } from '../waiting/waiting-turns.ts'
import { BeginningAtOnce } from '../gates/begin-at-once.ts'
import { Admission, RefusedAtBeginning, RefusedByPlugin } from '../gates/admission.ts'
import type { CarriedRun, RunMoment } from './carried-run.ts'
import type { Carrier } from './carrier.ts'
import { asUser } from '../named-user.ts'
import {
  closing,
  notWaiting,
  queueFull,
  requestIdReused,
  sessionBusy,
  waitsAlready,
} from '../sessions/refusals.ts'
import type { Replicas } from './replicas.ts'
import { Doorway } from '../gates/doorway.ts'
import type { BegunRun, QueuedTurn, SubmittedTurn } from '../started/door.ts'
import { timedId } from '../../base/clock.ts'

/** A run that has begun, or that was there already. `live` is the same run where this process carries it. */
export interface Started extends BegunRun {
  readonly live?: CarriedRun
}

/** What the app knows of the users and the rooms of runs. */
export interface IntakeRules {
  /** The room whose state a turn uses when its session has no room; by default the pair of user and oracle. */
  roomOf?(did: string, sessionId: string): string
  /** Throws unless the user may talk to the agent. By default everybody may. */
  mayTalk?(user: User): Promise<void>
  /** Makes the user of a run that is taken over, without a request; by default a user without capabilities. */
  restoreUser?(did: string): User | Promise<User>
  /** What the operator has granted, for users of whom a plugin tells only the DID. */
  readonly rights?: Rights
  /**
   * Brings what is attached to a message that nobody has seen before; throws what refuses the message. By default what is attached
   * is only described.
   */
  attach?(user: User, requestId: string, request: TurnRequest): Promise<TurnRequest>
  /** Called before this process carries on a run of another process. */
  onTakeover?(): void
  /** Called at every moment at which a process may die; for tests, which end the process there. */
  at?(moment: RunMoment, runId: string): void
}

/** When a waiting turn is tried again that could not begin. */
const tryAgainMs = { soon: 200, limit: 1_000, limitOfDay: 60_000 }
const gone = new Error('The turn waits no more: it was taken away, or has begun elsewhere.')
/** Undoes what was recorded of a turn about which the plugins have yet to be asked. */
const notAsked = new Error('The plugins have not been asked about this turn.')
/** How many turns begin in one turn of the event loop: a burst of new ones leaves time for those that are under way. */
const atATime = 2
/** How often a turn is tried that a plugin admits and then refuses in the transaction of its beginning. */
const mostBeginnings = 3

/** The parts by which an intake records and carries runs, and tells others of them. */
export interface IntakeParts {
  readonly store: RunStore
  readonly sessions: Sessions
  readonly carrier: Carrier
  readonly followers: Followers
  readonly watchers: Watchers
  readonly replicas: Replicas
  readonly seats: Seats | undefined
  readonly gates: RunGates
  readonly news: RunNews | undefined
  readonly settler: Settler
  readonly telemetry?: Telemetry
  readonly oracleDid: string
}

/** How a run comes to this process: begun by a message or a decision, or taken over from a process that left it. */
export class Intake {
  readonly #parts: IntakeParts
  readonly #rules: IntakeRules
  readonly #admission: Admission
  readonly #atOnce: BeginningAtOnce
  readonly #doorway = new Doorway(atATime)
  #closing = false

  constructor(parts: IntakeParts, rules: IntakeRules) {
    this.#parts = parts
    this.#rules = rules
    this.#admission = new Admission(parts)
    this.#atOnce = new BeginningAtOnce(parts)
  }

  /** Takes no new run any more. */
  close(): void {
    this.#closing = true
  }

  /** Throws unless the user may talk to the agent. */
  async mayTalk(user: User): Promise<void> {
    await this.#rules.mayTalk?.(user)
  }

  /** Records a message as a run and carries it. */
  send(message: SubmittedTurn): Promise<Started> {
    return this.#seated(message, (beginning) => this.begin(message.user, beginning))
  }

  /** Records a plugin's turn as a run and carries it, or has it wait until its session is free. */
  submit(message: SubmittedTurn): Promise<Started | QueuedTurn> {
    return this.#seated(message, (beginning) => this.offer(message.user, beginning))
  }

  /** Begins with a seat among the turns of this process, which is given back where nothing begins. */
  async #seated<T extends Started | QueuedTurn>(
    message: SubmittedTurn,
    begin: (beginning: Beginning) => Promise<T>,
  ): Promise<T> {
    const { user, sessionId, requestId = timedId(), address, whenBusy, koa, proof } = message
    await this.#atOnce.proveFirst(message)
    await this.mayTalk(user)
    const [{ did }, given] = [user, await this.#withFiles(message)]
    const span = this.#beginSpan(sessionId, koa)
    const request = span ? { ...given, traceparent: span.traceparent } : given
    const there = address === undefined ? undefined : dayNameOf(address)
    const seat = this.#parts.seats?.for({ did, sessionId, address: there })
    try {
      await this.#doorway.pass()
      const asked = { did, sessionId, requestId, request, seat, whenBusy, koa, span, proof }
      const begun = await begin(asked)
      if (!('live' in begun) || begun.live === undefined) seat?.leave()
      return begun
    } catch (error) {
      seat?.leave()
      throw error
    }
  }

  /** The span of a turn, as part of the request that begins the turn. What carries the turn ends the span. */
  #beginSpan(sessionId: string, koa: Beginning['koa']): TraceSpan | undefined {
    const asked = koa && requestSpan(koa)
    return this.#parts.telemetry?.beginTurn(sessionId, asked?.traceparent)
  }

  /** The request with its files. A message that has its run, or that waits, was given its files then. */
  async #withFiles({ user, sessionId, requestId, request }: SubmittedTurn): Promise<TurnRequest> {
    const { attach } = this.#rules
    if (!attach || !request.attachments?.length) return request
    const [{ store, sessions }, { did }] = [this.#parts, user]
    if (requestId !== undefined && (await sessionOfRequest(store, did, requestId)) !== undefined)
      return request
    await sessions.demand(did, sessionId)
    // What a session keeps its model for is judged by what that model reads.
    const model = request.model ?? (await sessions.modelOf(sessionId))
    return attach(user, requestId ?? '', model === null ? request : { ...request, model })
  }

  /** Records a run and carries it. */
  async begin(user: User, beginning: Beginning): Promise<Started> {
    const started = await this.offer(user, beginning)
    if ('waitingId' in started) throw waitsAlready(started.requestId)
    return started
  }

  /** The same for a turn that may wait where its session is busy. `refusal` is why a waiting turn ends without a beginning. */
  async offer(
    user: User,
    beginning: Beginning,
    refusal?: RuntimeError,
  ): Promise<Started | QueuedTurn> {
    if (this.#closing) throw closing()
    // Heard from before the run is recorded, for from then on others may stop it.
    const leave = this.#parts.replicas.session(beginning.sessionId)
    try {
      return await this.#offer(user, beginning, refusal)
    } finally {
      leave()
    }
  }

  async #offer(
    user: User,
    beginning: Beginning,
    refusal: RuntimeError | undefined,
  ): Promise<Started | QueuedTurn> {
    const { store, carrier, replicas, watchers } = this.#parts
    const { sessionId, requestId, answers, seat, span } = beginning
    const begun = await this.#record(user, beginning)
    if (begun.outcome === 'waits') {
      const { id: waitingId, sessionId, isNew } = begun
      if (isNew) this.#rules.at?.('after the turn is queued', waitingId)
      span?.end()
      return { waitingId, requestId, sessionId, isNew }
    }
    if (begun.outcome === 'known')
      return { runId: begun.run.id, requestId, sessionId: begun.run.session_id }
    if (begun.outcome === 'not-waiting') throw await this.#notWaiting(answers?.run)
    if (begun.outcome !== 'begun') throw this.#refused(begun.outcome, beginning)
    const { run, request, room, superseded, closed, ...before } = begun
    if (closed.length > 0) tellClosed(this.#parts, closed)
    this.#rules.at?.('after the run is recorded', run.id)
    if (this.#closing) {
      // The run is recorded and goes on elsewhere: a client that is told to ask again would begin a second one.
      await releaseRuns(store, [run.id])
      replicas.tellFree()
      span?.end()
      seat?.leave()
      return { runId: run.id, requestId, sessionId }
    }
    const live = carrier.carry({
      row: run,
      request,
      user,
      room: this.#roomOf(user.did, sessionId, room),
      takenOver: false,
      ...{ ...before, seat, span, refusal },
    })
    for (const runId of carrier.stop(superseded, 'superseded'))
      replicas.tell(sessionId, 'superseded', runId)
    watchers.began(sessionId, run.id)
    return { runId: run.id, requestId, sessionId, live }
  }

  /** Records a turn once the plugins have let it in. A turn that may wait is let in when it begins. */
  async #record(user: User, beginning: Beginning): Promise<Begun> {
    let mustAsk = this.#admission.isNeeded(beginning)
    if (mustAsk && !beginning.whenBusy) {
      await this.#admission.ask(user, beginning)
      mustAsk = false
    }
    this.#rules.at?.('before the run is recorded', '')
    for (let tries = 1; ;) {
      try {
        return await this.#recordOnce(user, beginning, mustAsk)
      } catch (error) {
        if (error instanceof RefusedAtBeginning) {
          if (tries === mostBeginnings || !this.#admission.canExplain) throw error.toldTo(beginning)
          tries++
        } else if (error !== notAsked) throw error
      }
      // What a plugin refuses in the transaction it may explain outside of it: there it can write, and ask others.
      await this.#admission.ask(user, beginning)
      mustAsk = false
    }
  }

  #recordOnce(user: User, beginning: Beginning, mustAsk: boolean): Promise<Begun> {
    const { store } = this.#parts
    // `unsynced`: a power cut may lose a run that has done nothing yet, because the mark of a tool's write is synced first.
    // A plugin may have told others that its turn was accepted, so a plugin's turn waits for the disk.
    const durability = beginning.request.origin === undefined ? 'unsynced' : 'synced'
    const began = performance.now()
    const inSteps = () =>
      store.commits.atomic(async (trx) => {
        const begun = await beginRun(store, trx, beginning)
        if (begun.outcome !== 'begun') return begun
        if (mustAsk) throw notAsked
        await this.#admission.recorded(trx, user, beginning, begun.run)
        return begun
      }, durability)
    const atOnce = mustAsk ? Promise.resolve(undefined) : this.#atOnce.begin(user, beginning)
    const recorded = atOnce.then((begun) => begun ?? inSteps())
    const { telemetry } = this.#parts
    const { traceparent } = beginning.request
    const told = () => telemetry?.database('begin', performance.now() - began, [traceparent])
    recorded.then(told, told)
    return recorded
  }

  /** Has a waiting turn begin. With a cause the turn only ends, and does not reach the engine. */
  async beginWaiting(turn: WaitingTurn, known?: User, cause?: RunCause): Promise<Attempted> {
    const { id, did, session_id: sessionId, request_id: requestId } = turn
    if (this.#closing) return { inMs: tryAgainMs.soon }
    const kept: TurnRequest = JSON.parse(turn.request) // written by `enqueue`
    const request = { ...kept, waitedMs: Math.max(0, Number(turn.waited_ms)) }
    const user = known ?? (await this.restoreUser(did))
    const refusal = cause ? undefined : await this.#refusalOf(user)
    const why = refusal ? 'given-up' : cause
    const address = turn.address ?? undefined
    const seat = why ? undefined : this.#parts.seats?.for({ did, sessionId, address })
    this.#rules.at?.('before a waiting turn begins', id)
    const waited = { id, cause: why }
    const beginning = { did, sessionId, requestId, request, seat, waited, isAdmitted: true }
    try {
      if (!why) await this.#admission.ask(user, beginning)
      await this.offer(user, beginning, refusal)
      return 'begun'
    } catch (error) {
      seat?.leave()
      if (error instanceof RefusedByPlugin) return await this.#leaveRefused(turn, error.refusal)
      if (error === gone || (error instanceof RuntimeError && error.code === 'NOT_FOUND'))
        return 'gone'
      if (!(error instanceof RuntimeError)) throw error
      if (error.code === 'SESSION_BUSY') return { inMs: tryAgainMs.soon }
      if (error.code !== 'TURNS_LIMIT') throw error
      const isForToday = Number(error.headers?.['Retry-After']) > busyRetrySeconds
      return { inMs: isForToday ? tryAgainMs.limitOfDay : tryAgainMs.limit }
    }
  }

  /** Takes a waiting turn that a plugin refused out of the queue. Nothing of the turn is recorded. */
  async #leaveRefused(
    { id, session_id: sessionId }: WaitingTurn,
    refused: RuntimeError,
  ): Promise<Attempted> {
    const { store, replicas } = this.#parts
    if (!(await store.commits.atomic((trx) => leaveQueue(trx, id)))) return 'gone'
    replicas.tell(sessionId, 'left', id)
    return { refused }
  }

  /** Why the user of a waiting turn may not talk to the agent any more. An error of the server is no such reason. */
  async #refusalOf(user: User): Promise<RuntimeError | undefined> {
    try {
      await this.mayTalk(user)
      return undefined
    } catch (error) {
      if (error instanceof RuntimeError && error.status < 500) return error
      throw error
    }
  }

  #refused(
    outcome: 'no-session' | 'busy' | 'full' | 'reused' | 'gone',
    { sessionId, requestId }: Beginning,
  ): Error {
    switch (outcome) {
      case 'no-session':
        return this.#parts.sessions.unknown(sessionId)
      case 'busy':
        return sessionBusy(sessionId)
      case 'full':
        return queueFull(sessionId)
      case 'reused':
        return requestIdReused(requestId)
      case 'gone':
        return gone
    }
  }

  /** Carries a run that another process left. Undefined when its request is not kept any more. */
  async takeOver(row: RunRow, claimMs: number): Promise<CarriedRun | undefined> {
    const { store, sessions, followers, carrier, seats, telemetry } = this.#parts
    const request = await store.requestOf(row)
    if (request === undefined) return undefined
    telemetry?.claimed(claimMs, request.traceparent)
    const user = await this.restoreUser(row.did)
    const before = await store.before(row)
    const room = await sessions.roomOf(row.session_id)
    followers.leave(row.id)
    // The run takes a seat without the limit being asked: its message was let in when it came.
    const seat =
      row.continues === null ? seats?.for({ did: row.did, sessionId: row.session_id }) : undefined
    seat?.occupy()
    this.#rules.onTakeover?.()
    return carrier.carry({
      row,
      request,
      user,
      room: this.#roomOf(row.did, row.session_id, room),
      takenOver: true,
      seat,
      ...before,
    })
  }

  /** A user of whom only the DID is known. */
  async restoreUser(did: string): Promise<User> {
    return (await this.#rules.restoreUser?.(did)) ?? asUser({ did }, this.#rules.rights)
  }

  async #notWaiting(asked: RunRow | undefined) {
    const run = asked && (await this.#parts.store.find(asked.id))
    return run ? notWaiting(run) : this.#parts.sessions.unknown(asked?.session_id ?? '')
  }

  #roomOf(did: string, sessionId: string, ofSession: string | null): string {
    const { oracleDid } = this.#parts
    return roomNameOf({
      did,
      oracleDid,
      room: ofSession ?? this.#rules.roomOf?.(did, sessionId),
    })
  }
}
