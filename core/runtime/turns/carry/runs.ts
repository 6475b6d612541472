import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import type { Log, TurnEvent, Turns, User } from '../../../plugin.ts'
import type { Store } from '../../store/store.ts'
import { Batcher } from '../events/batcher.ts'
import { Followers } from '../events/followers.ts'
import { type OpenRun, openRuns } from '../events/open-calls.ts'
import type { EventReader } from '../events/reader.ts'
import { Watchers } from '../events/watchers.ts'
import { moveHead } from '../journal/head.ts'
import { releaseRuns } from '../journal/leases.ts'
import { type OracleFacts, Sessions } from '../journal/sessions.ts'
import { stopRuns } from '../journal/stop.ts'
import { type RunRow, RunStore } from '../journal/store.ts'
import { withRunTables } from '../journal/tables.ts'
import { Seats, type TurnLimits } from '../limits.ts'
import type { Decision, Engine, TurnRequest } from '../run.ts'
import { Approvers } from './approvers.ts'
import { Audience } from './audience.ts'
import type { CarriedRun } from './carried-run.ts'
import { Carrier } from './carrier.ts'
import { ClientAnswers, type IncomingAnswer } from './client-answers.ts'
import { hearingOf, lookUpMissed } from './hearing.ts'
import { Intake, type IntakeRules, type Started } from './intake.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { type PluginTurn, startPluginTurn, turnEvents } from './plugin-turn.ts'
import { alreadyRetried, listQuarantined, noteRetry, quarantinedMessage } from './quarantine.ts'
import { Readers } from './readers.ts'
import { gone, notWaiting } from './refusals.ts'
import { Replicas } from './replicas.ts'

/** What the runs of an app are made of. */
export interface RunsOptions extends IntakeRules {
  readonly store: Pick<Store, 'db' | 'unsynced' | 'synced' | 'kind' | 'listen' | 'notify'>
  readonly log: Log
  readonly engine: Engine
  readonly oracle: OracleFacts
  /** A run whose process is silent this long is taken over. */
  readonly leaseMs: number
  /** How long runs that have ended can be replayed. */
  readonly retentionHours: number
  /** The room that clients are told with a session, where it has one outside of this runtime. */
  roomIdOf?(did: string, sessionId: string): string | undefined
  /** Throws unless the user may talk to the agent. By default everybody may. */
  mayTalk?(user: User): Promise<void>
  /** Deletes what others keep of a session. */
  onSessionDeleted?(sessionId: string): Promise<void>
  /** How long the client's own tools may be out of reach before a call of one fails. */
  readonly absenceMs?: number
  /** How many turns people may have; without it, as many as they like. */
  readonly limits?: TurnLimits
}

/** A message that is to become a run. */
export interface NewMessage {
  readonly user: User
  readonly sessionId: string
  readonly requestId?: string
  readonly request: TurnRequest
  /** Where the message came from, when it came by HTTP. */
  readonly address?: string
}

/** What goes on in a session: the run under way, or the one that waits for a person's decision. */
export interface Underway {
  readonly run: { readonly runId: string; readonly status: string } | null
  readonly waiting?: { readonly runId: string }
}

/** How long engines have to let go when the server closes. */
const closeGraceMs = 1_000

/** Sessions and their durable runs: the part of the kernel that keeps conversations and carries their turns. */
export class Runs implements Turns {
  readonly sessions: Sessions
  readonly #options: RunsOptions
  readonly #store: RunStore
  readonly #carrier: Carrier
  readonly #followers: Followers
  readonly #answers: ClientAnswers
  readonly #audience: Audience
  readonly #approvers: Approvers
  readonly #keeper: LeaseKeeper
  readonly #intake: Intake
  readonly #readers: Readers
  readonly #replicas: Replicas
  readonly #watchers = new Watchers()
  readonly #seats: Seats | undefined
  #closing: Promise<void> | undefined

  constructor(options: RunsOptions) {
    const { store, log, engine, leaseMs, retentionHours, oracle, roomIdOf } = options
    this.#options = options
    this.#seats = options.limits && new Seats(options.limits)
    const db = withRunTables(store.db)
    this.sessions = new Sessions({ db, dialect: store.kind, oracle, roomIdOf })
    this.#store = new RunStore({
      store,
      owner: randomUUID(),
      leaseMs,
    })
    const replicas = (this.#replicas = new Replicas({ store, log }))
    this.#followers = new Followers(this.#store, log)
    this.#audience = new Audience(
      (runId, sessionId) => replicas.tell('wanted', runId, sessionId),
      options.absenceMs,
    )
    this.#approvers = new Approvers(
      replicas.canBe ? (sessionId) => replicas.tell('asks', sessionId) : undefined,
    )
    this.#answers = new ClientAnswers(
      this.#store,
      (runId) => replicas.tell('answered', runId),
      this.#audience,
    )
    this.#carrier = new Carrier({
      store: this.#store,
      batcher: new Batcher(this.#store, log),
      answers: this.#answers,
      approvers: this.#approvers,
      engine,
      log,
      at: options.at ?? (() => {}),
    })
    this.#intake = new Intake(
      {
        store: this.#store,
        sessions: this.sessions,
        carrier: this.#carrier,
        followers: this.#followers,
        watchers: this.#watchers,
        replicas,
        seats: this.#seats,
        oracleDid: oracle.did,
      },
      options,
    )
    this.#keeper = new LeaseKeeper({
      store: this.#store,
      log,
      leaseMs,
      retentionHours,
      live: this.#carrier.live,
      takeOver: (row) => this.#intake.takeOver(row),
      onBeat: () => this.#answers.look(),
    })
    this.#readers = new Readers({
      store: this.#store,
      carrier: this.#carrier,
      followers: this.#followers,
      audience: this.#audience,
    })
  }

  /** Begins to listen to other replicas, and takes over what a process left behind. */
  async open(): Promise<void> {
    const hearers = {
      carrier: this.#carrier,
      keeper: this.#keeper,
      followers: this.#followers,
      answers: this.#answers,
      audience: this.#audience,
      approvers: this.#approvers,
      watchers: this.#watchers,
      replicas: this.#replicas,
      log: this.#options.log,
    }
    await this.#replicas.open(hearingOf(hearers), () => lookUpMissed(hearers))
    await this.#keeper.open()
  }

  /** Records a message as a run and begins to carry it out. */
  async send(message: NewMessage): Promise<Started> {
    const { user, sessionId, requestId = randomUUID(), request, address } = message
    await this.mayTalk(user)
    const { did } = user
    const seat = this.#seats?.for({ did, sessionId, address })
    try {
      const started = await this.#intake.begin(user, { did, sessionId, requestId, request, seat })
      if (started.live === undefined) seat?.leave()
      return started
    } catch (error) {
      seat?.leave()
      throw error
    }
  }

  /** Goes on with a run that waits for a person, in a new run. */
  async resume(user: User, runId: string, decision: Decision): Promise<Started> {
    await this.mayTalk(user)
    const run = await this.demand(user.did, runId)
    if (run.status !== 'waiting') throw notWaiting(run)
    const request = await this.#store.requestOf(run)
    if (request === undefined) throw gone(runId)
    return this.#intake.begin(user, {
      did: user.did,
      sessionId: run.session_id,
      requestId: randomUUID(),
      request,
      answers: { run, decision },
    })
  }

  /** Throws unless the user may talk to the agent. Users read and delete what is theirs all the same. */
  async mayTalk(user: User): Promise<void> {
    await this.#options.mayTalk?.(user)
  }

  /** The runs with which a process died twice, for the operator. */
  quarantined(limit: number, offset: number) {
    return listQuarantined(this.#store, limit, offset)
  }

  /** Tries the message of a quarantined run again, as a new turn of its session. */
  async retry(runId: string): Promise<Started & { readonly sessionId: string }> {
    const { run, request } = await quarantinedMessage(this.#store, runId)
    const { session_id: sessionId, did } = run
    const underway = await this.underway(sessionId)
    const other = underway.run ?? underway.waiting
    if (other)
      throw new RuntimeError('CONFLICT', `Run "${other.runId}" is under way in that session.`, {
        hint: 'A new turn would end it. Try again when it has ended.',
      })
    const user = await this.#intake.restoreUser(did)
    // The request is named after the run that it repeats, so that two operators at once begin one turn. No client can have
    // used the name before: the names that clients give are UUIDs.
    const started = await this.#intake.begin(user, {
      did,
      sessionId,
      requestId: `retry:${runId}`,
      request,
    })
    await noteRetry(this.#store, runId, started.runId)
    if (!started.live) throw alreadyRetried(runId, started.runId)
    return { ...started, sessionId }
  }

  /** A run of this user, or NOT_FOUND. */
  async demand(did: string, runId: string): Promise<RunRow> {
    const run = await this.#store.find(runId)
    if (run?.did === did) return run
    throw new RuntimeError('NOT_FOUND', `You have no run "${runId}".`)
  }

  /** The session's newest run: the one under way, or the one that waits for a person. */
  async underway(sessionId: string): Promise<Underway> {
    const run = await this.#store.newestOpen(sessionId)
    if (!run) return { run: null }
    const { id: runId, status, isHeld } = run
    if (status === 'waiting') return { run: null, waiting: { runId } }
    const recovers = !isHeld || this.#carrier.live.get(runId)?.takenOver === true
    const shown = status === 'running' && recovers ? 'recovering' : status
    return { run: { runId, status: shown } }
  }

  /**
   * Reads a run's events after a number, old and new, up to its end. A reader that attends can carry out
   * the client's own tools.
   */
  subscribe(runId: string, after = 0, attends = false): Promise<EventReader> {
    return this.#readers.subscribe(runId, after, attends)
  }

  /**
   * Told of every run that begins in the session, wherever it is carried, and of the session's end.
   * Returns how to stop.
   */
  watch(sessionId: string, onRun: (runId: string) => void, onDeleted?: () => void): () => void {
    return this.#watchers.add(sessionId, onRun, onDeleted)
  }

  /** A client is there for the session's calls of its own tools, until what this returns is called. */
  attend(sessionId: string): () => void {
    return this.#audience.enter(sessionId)
  }

  /** A socket shows what of the session's runs waits for a person, until what this returns is called. */
  showApprovals(sessionId: string): () => void {
    return this.#approvers.enter(sessionId)
  }

  /** The session's runs that are under way, with the calls that wait for a client. */
  async openRuns(sessionId: string): Promise<readonly OpenRun[]> {
    // The database must have what the listeners were told already, or they would be told it again.
    const written = this.#carrier.ofSession(sessionId).map(({ feed }) => feed.flush())
    await Promise.allSettled(written)
    return openRuns(this.#store.db, sessionId)
  }

  /** Hands in what a client made of a call of its own tool. False: nobody waits for it. */
  clientResult(answer: IncomingAnswer): Promise<boolean> {
    return this.#answers.answer(answer)
  }

  /** Ends the session's open runs, or the one of this request even before it arrives. */
  async abort(did: string, sessionId: string, requestId?: string): Promise<boolean> {
    const isMeant = (run: CarriedRun) =>
      run.user.did === did && (requestId === undefined || run.requestId === requestId)
    // The model and the tools hear of it before the database does.
    for (const run of this.#carrier.ofSession(sessionId)) if (isMeant(run)) run.stop('aborted')
    const stopped = await stopRuns(this.#store, { did, sessionId, requestId })
    if (!stopped) throw this.sessions.unknown(sessionId)
    for (const runId of this.#carrier.stop(stopped.runIds, 'aborted'))
      this.#replicas.tell('aborted', runId)
    return stopped.isKnown
  }

  /** Ends a session and everything in it. */
  async deleteSession(did: string, sessionId: string): Promise<void> {
    const runIds = await this.sessions.delete(did, sessionId)
    for (const run of this.#carrier.ofSession(sessionId)) run.feed.lose('its session was deleted')
    for (const runId of runIds) this.#followers.leave(runId)
    this.#replicas.tell('deleted', sessionId)
    this.#watchers.deleted(sessionId)
    await this.#options.onSessionDeleted?.(sessionId)
  }

  /** What the engine left behind in the session, as its next run will be handed it. */
  async headOf(sessionId: string): Promise<string | undefined> {
    return (await this.#store.before({ session_id: sessionId, turn: Infinity })).checkpoint
  }

  /** Moves the session's head between two runs. During a run this is a CONFLICT: the end of the run will move the head. */
  async moveHead(sessionId: string, checkpoint: string): Promise<void> {
    const outcome = await moveHead(this.#store, sessionId, checkpoint)
    if (outcome === 'no-session') throw this.sessions.unknown(sessionId)
    if (outcome === 'busy')
      throw new RuntimeError('CONFLICT', 'A turn is under way in this session.', {
        hint: 'Do it again when the turn has ended.',
      })
  }

  /** Starts a turn for a plugin. */
  start(turn: PluginTurn): AsyncIterable<TurnEvent> {
    const { rights, log } = this.#options
    const events = startPluginTurn(this, { rights, log }, turn)
    // A plugin may never look at the events: then the log has the fault, and the process does not end of it.
    events.catch((error: unknown) =>
      log.warn({ err: error }, 'A turn that a plugin started did not begin'),
    )
    return turnEvents(events)
  }

  /** Lets go of every run, so that other processes take the runs over, and tells the readers to go on there. */
  close(graceMs = closeGraceMs): Promise<void> {
    this.#intake.close()
    this.#closing ??= this.#close(graceMs)
    return this.#closing
  }

  async #close(graceMs: number): Promise<void> {
    this.#readers.handOver()
    await this.#keeper.close()
    const runs = [...this.#carrier.live.values()]
    for (const run of runs) run.handOver()
    await Promise.race([this.#carrier.settled(), sleep(graceMs, undefined, { ref: false })])
    for (const run of runs) run.feed.close()
    const written = Promise.allSettled(runs.map((run) => run.feed.flush()))
    await Promise.race([written, sleep(graceMs, undefined, { ref: false })])
    try {
      await releaseRuns(
        this.#store,
        runs.map(({ runId }) => runId),
      )
      await this.#keeper.leave()
      this.#replicas.tell('free')
    } catch (error) {
      this.#options.log.warn({ err: error }, 'Runs could not be released; their leases run out')
    }
    for (const run of runs) run.feed.lose('the server closes')
    this.#followers.close()
    await this.#replicas.close()
  }
}
