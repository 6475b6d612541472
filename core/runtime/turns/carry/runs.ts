import type { RawBuilder } from 'kysely'
import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type { Message, PluginSessions, Turns, User } from '../../../plugin.ts'
import type { IncomingAnswer } from '../clients/client-answers.ts'
import { Clients } from '../clients/clients.ts'
import { Batcher } from '../events/batcher.ts'
import { type ClosedRunHearers, tellClosed } from '../events/closed.ts'
import { Followers } from '../events/followers.ts'
import { type OpenRun, openRuns } from '../events/open-calls.ts'
import { RunNews } from '../events/news.ts'
import type { EventReader } from '../events/reader.ts'
import { Watchers, type Watcher } from '../events/watchers.ts'
import { RunGates } from '../gates/gates.ts'
import { Settler } from '../gates/settler.ts'
import type { Beginning } from '../journal/begin.ts'
import { endEphemeral } from '../sessions/ephemeral.ts'
import { moveHead } from '../sessions/head.ts'
import { Sessions } from '../sessions/sessions.ts'
import { stopRuns } from '../journal/stop.ts'
import { type RunRow, RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { Seats } from '../limits.ts'
import type { Decision } from '../run.ts'
import { Speaker } from '../said/speaker.ts'
import { WaitingTurns } from '../waiting/waiting-turns.ts'
import type { CarriedRun } from './carried-run.ts'
import { Carrier, endNotices } from './carrier.ts'
import { hearingOf, lookUpMissed } from './hearing.ts'
import { readHistory } from './history.ts'
import { Intake, type Started } from './intake.ts'
import type { QueuedTurn, SubmittedTurn } from '../started/door.ts'
import { PluginTurns } from '../started/plugin-turns.ts'
import type { Heard } from '../redaction/cutter.ts'
import { TakingBack } from '../redaction/taking-back.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { letGo } from './let-go.ts'
import { listQuarantined, retryQuarantined } from './quarantine.ts'
import { endOverdue } from './overdue.ts'
import { Readers } from './readers.ts'
import { gone, notWaiting } from '../sessions/refusals.ts'
import { Replicas } from './replicas.ts'
import type { OpeningRuns, RunsOptions } from './runs-options.ts'
import { timedId } from '../../base/clock.ts'
import { lookUnderway, type Underway } from './underway.ts'

/** How long engines have to let go when the server closes. */
const closeGraceMs = 1_000

/** Sessions and their durable runs: the part of the kernel that keeps conversations and carries their turns. */
export class Runs {
  readonly sessions: Sessions
  /** Where parts of the kernel say that they want to hear of the ends of runs. */
  readonly gates: RunGates
  readonly #options: RunsOptions
  readonly #store: RunStore
  readonly #carrier: Carrier
  readonly #followers: Followers
  readonly #clients: Clients
  readonly #keeper: LeaseKeeper
  readonly #intake: Intake
  readonly #settler: Settler
  readonly #readers: Readers
  readonly #replicas: Replicas
  readonly #speaker: Speaker
  readonly #watchers = new Watchers((sessionId) => this.#replicas.session(sessionId))
  readonly #waiting: WaitingTurns
  readonly #takingBack: TakingBack
  readonly #told: ClosedRunHearers
  readonly #seats: Seats | undefined
  #closing: Promise<void> | undefined

  constructor(options: RunsOptions) {
    const { store, log, engine, leaseMs, oracle, roomIdOf, notices, telemetry } = options
    this.#options = options
    this.#seats = options.limits && new Seats(options.limits)
    this.#store = new RunStore({ store, owner: randomUUID(), leaseMs })
    const { db, dialect, now, commits } = this.#store
    this.sessions = new Sessions({ db, dialect, now, commits, oracle, roomIdOf, notices })
    this.gates = options.gates ?? new RunGates({ records: [] })
    const at = options.at ?? (() => {})
    const own = { store: this.#store, gates: this.gates, sessions: this.sessions, log, at }
    const settler = (this.#settler = new Settler({ ...own, notices: endNotices }))
    this.#speaker = new Speaker({ ...own, watchers: this.#watchers, notices }, options)
    const replicas = (this.#replicas = new Replicas({ store, log }))
    this.#told = { settler, replicas, watchers: this.#watchers }
    this.#followers = new Followers(this.#store, log, {
      enter: (runId, onReady) => replicas.run(runId, onReady),
      tell: (sessionId, runId) => replicas.tell(sessionId, 'follows', runId),
    })
    const clients = (this.#clients = new Clients(this.#store, replicas, options.absenceMs))
    const news = notices && new RunNews(notices)
    this.#carrier = new Carrier({
      store: this.#store,
      batcher: new Batcher(this.#store, log, telemetry),
      answers: clients.answers,
      approvers: clients.approvers,
      ...{ news, engine, log },
      usageOf: options.usageOf,
      telemetry,
      onEnded: () => this.#waiting.nudge(),
      interest: (sessionId) => replicas.session(sessionId, () => void this.#keeper.beat()),
      onKept: ({ row }) => settler.ended(row),
      at,
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
        gates: this.gates,
        news,
        settler,
        telemetry,
        oracleDid: oracle.did,
      },
      options,
    )
    this.#waiting = new WaitingTurns({
      store: this.#store,
      log,
      leaseMs,
      begin: (turn, by, cause) => this.#intake.beginWaiting(turn, by, cause),
      interest: (sessionId) => replicas.session(sessionId, () => this.#waiting.nudge()),
    })
    this.#takingBack = this.#takingBackBy(replicas)
    this.#keeper = new LeaseKeeper({
      ...{ store: this.#store, log, leaseMs },
      retentionHours: options.retentionHours,
      purgesItself: options.purgesItself ?? true,
      runsPerProcess: options.runsPerProcess ?? 500,
      live: this.#carrier.live,
      takeOver: (row, claimMs) => this.#intake.takeOver(row, claimMs),
      onBeat: () => clients.answers.look(),
      onPurge: () => settler.purge(),
      forgetCheckpoint: options.forgetCheckpoint,
    })
    this.#readers = new Readers({
      ...{ store: this.#store, carrier: this.#carrier, followers: this.#followers },
      audience: clients.audience,
      interest: (sessionId) => replicas.session(sessionId),
    })
  }

  #takingBackBy(replicas: Replicas): TakingBack {
    const { live } = this.#carrier
    const parts = { store: this.#store, watchers: this.#watchers, live, replicas }
    const { onRedacted } = this.#options
    return new TakingBack({ ...parts, onRedacted, abort: (...turn) => this.abort(...turn) })
  }

  /** Begins to listen to other replicas, and takes over what a process left behind. */
  async open({ before, takesOver = true }: OpeningRuns = {}): Promise<void> {
    const hearers = {
      carrier: this.#carrier,
      keeper: this.#keeper,
      followers: this.#followers,
      clients: this.#clients,
      watchers: this.#watchers,
      waiting: this.#waiting,
      replicas: this.#replicas,
      store: this.#store,
      log: this.#options.log,
      onRedacted: this.#options.onRedacted,
    }
    await this.#replicas.open(hearingOf(hearers), () => lookUpMissed(hearers))
    this.#settler.open()
    await before?.()
    if (!takesOver) return
    await this.#keeper.open()
    await this.#waiting.open()
  }

  /** Records a message as a run and begins to carry it out. */
  send(message: SubmittedTurn): Promise<Started> {
    return this.#intake.send(message)
  }

  /** Records a plugin's turn as a run and begins to carry it out, or has it wait until its session is free. */
  async submit(message: SubmittedTurn): Promise<Started | QueuedTurn> {
    const taken = await this.#intake.submit(message)
    if ('waitingId' in taken) this.#waiting.queued(taken.sessionId)
    return taken
  }

  /** Goes on with a run that waits for a person, in a new run. */
  async resume(
    user: User,
    runId: string,
    decision: Decision,
    requestId: string = timedId(),
  ): Promise<Started> {
    await this.mayTalk(user)
    const run = await this.demand(user.did, runId)
    if (run.status !== 'waiting') throw notWaiting(run)
    const request = await this.#store.requestOf(run)
    if (request === undefined) throw gone(runId)
    await this.#options.checkDecision?.(run, decision)
    const of = { did: user.did, sessionId: run.session_id, requestId }
    return this.#intake.begin(user, { ...of, request, answers: { run, decision } })
  }

  /** Throws unless the user may talk to the agent. Users read and delete what is theirs all the same. */
  mayTalk(user: User): Promise<void> {
    return this.#intake.mayTalk(user)
  }

  /** The runs with which a process died twice, for the operator. */
  quarantined(limit: number, offset: number) {
    return listQuarantined(this.#store, limit, offset)
  }

  /** Tries the message of a quarantined run again, as a new turn of its session. */
  retry(runId: string): Promise<Started & { readonly sessionId: string }> {
    const underway = (sessionId: string) => this.underway(sessionId)
    return retryQuarantined({ store: this.#store, intake: this.#intake, underway }, runId)
  }

  /** A run of this user, or NOT_FOUND. */
  async demand(did: string, runId: string): Promise<RunRow> {
    const run = await this.#store.find(runId)
    if (run?.did === did) return run
    throw new RuntimeError('NOT_FOUND', `You have no run "${runId}".`)
  }

  /** The session's newest run: the one under way, or the one that waits for a person. */
  underway(sessionId: string): Promise<Underway> {
    return lookUnderway(this.#store, this.#carrier, sessionId)
  }

  /**
   * Reads a run's events after a number, old and new, up to its end. A reader that attends can carry out
   * the client's own tools.
   */
  subscribe(runId: string, after = 0, attends = false): Promise<EventReader> {
    return this.#readers.subscribe(runId, after, attends)
  }

  /**
   * Tells the watcher of every run that begins in the session, whichever process carries the run, of every reply that is cut,
   * and of the session's end. Returns the function that stops this.
   */
  watch(sessionId: string, watcher: Watcher): () => void {
    return this.#watchers.add(sessionId, watcher)
  }

  /** Counts a client as there for the session's calls of its own tools, until the function that this returns is called. */
  attend(sessionId: string): () => void {
    return this.#clients.audience.enter(sessionId)
  }

  /** Counts a socket as showing the session's approvals, until the function that this returns is called. */
  showApprovals(sessionId: string): () => void {
    return this.#clients.approvers.enter(sessionId)
  }

  /** The session's runs that are under way, with the calls that wait for a client. */
  async openRuns(sessionId: string): Promise<readonly OpenRun[]> {
    // First the events are written that listeners here have had, so that the look below does not bring the same calls again.
    const written = this.#carrier.ofSession(sessionId).map(({ feed }) => feed.flush())
    await Promise.allSettled([...written, this.#replicas.ready(sessionId)])
    return openRuns(this.#store.db, sessionId)
  }

  /** Hands in what a client made of a call of its own tool. False when no run waits for the answer. */
  clientResult(answer: IncomingAnswer): Promise<boolean> {
    return this.#clients.answers.answer(answer)
  }

  /** Ends the session's open runs, or the one of this request even before it arrives. */
  async abort(did: string, sessionId: string, requestId?: string): Promise<boolean> {
    const isMeant = (run: CarriedRun) =>
      run.user.did === did && (requestId === undefined || run.requestId === requestId)
    // The model and the tools hear of the stop before the database does.
    for (const run of this.#carrier.ofSession(sessionId)) if (isMeant(run)) run.stop('aborted')
    const onUnqueued = this.#settler.unqueued.bind(this.#settler)
    const stopped = await stopRuns(this.#store, { did, sessionId, requestId, onUnqueued })
    if (!stopped) throw this.sessions.unknown(sessionId)
    for (const runId of this.#carrier.stop(stopped.runIds, 'aborted'))
      this.#replicas.tell(sessionId, 'aborted', runId)
    if (stopped.unqueued !== undefined) {
      this.#waiting.left(stopped.unqueued)
      this.#replicas.tell(sessionId, 'left', stopped.unqueued)
      this.#settler.nudge()
    }
    if (stopped.closed?.length) {
      tellClosed(this.#told, stopped.closed)
      this.#waiting.nudge()
    }
    return stopped.isKnown
  }

  /** Takes the words of a turn back; false where the user has no turn of this request in the session. */
  redact(did: string, sessionId: string, requestId: string): Promise<boolean> {
    return this.#takingBack.redact(did, sessionId, requestId)
  }

  /** Ends a reply where its user stopped listening; false where nothing was cut off. */
  cut(heard: Heard): Promise<boolean> {
    return this.#takingBack.cut(heard)
  }

  /** Ends a session and everything in it, where its row meets the condition. */
  async deleteSession(did: string, sessionId: string, only?: RawBuilder<boolean>): Promise<void> {
    const shown = await this.#carrier.keepShown(did, sessionId)
    const runIds = await this.#settler.deleting(sessionId, shown, (tell) => {
      const tellAll = (trx: RunDatabase) =>
        tell(trx).then(() => this.gates.deleted({ sessionId, did }, trx))
      return this.sessions.delete(did, sessionId, tellAll, only)
    })
    for (const run of this.#carrier.ofSession(sessionId)) run.feed.lose('its session was deleted')
    for (const runId of runIds) this.#followers.leave(runId)
    await this.#tellDeleted(did, sessionId)
  }

  /** Takes back a session that was made for a turn which did not begin. One that others use by now stays. */
  async discardSession(did: string, sessionId: string): Promise<void> {
    if (await this.sessions.discard(did, sessionId)) await this.#tellDeleted(did, sessionId)
  }

  async #tellDeleted(did: string, sessionId: string): Promise<void> {
    this.#replicas.tell(sessionId, 'deleted', sessionId)
    this.#watchers.deleted(sessionId)
    this.#waiting.deleted(sessionId)
    this.#options.notices?.tell(did, 'session', { sessionId, change: 'deleted' })
    await this.#options.onSessionDeleted?.(sessionId)
  }

  /** What the engine left behind in the session, as its next run will be handed it. */
  async headOf(sessionId: string): Promise<string | undefined> {
    return (await this.#store.before({ session_id: sessionId, turn: Infinity })).checkpoint
  }

  /** What models read of a session: as much of its newest part as has about so many characters. */
  historyOf(sessionId: string, characters: number): Promise<Message[]> {
    return readHistory(this.#store, { sessionId, position: Number.MAX_SAFE_INTEGER }, characters)
  }

  /** Moves the session's head between two runs; resolves to a head that nothing needs any more. During a run: CONFLICT. */
  async moveHead(sessionId: string, checkpoint: string): Promise<string | undefined> {
    const moved = await moveHead(this.#store, sessionId, checkpoint)
    if (moved === 'no-session') throw this.sessions.unknown(sessionId)
    return moved.replaced
  }

  /** The sessions of users as a plugin reaches them: it makes them, and speaks in them. */
  sessionsOf(plugin: string): Pick<PluginSessions, 'say' | 'ensure' | 'message'> {
    return this.#speaker.of(plugin)
  }

  /** `turns` of a plugin. */
  turnsOf(plugin: string): Turns {
    const { rights, log, checkRequest, restoreUser, fork } = this.#options
    const parts = { runs: this, waiting: this.#waiting, store: this.#store, restoreUser, fork }
    return new PluginTurns({ ...parts, plugin, rights, log, checkRequest })
  }

  /** Ends runs that have waited so many days for a person, at most so many of them; resolves to how many there were. */
  endOverdue(days: number, most: number): Promise<number> {
    const parts = { ...this.#told, waiting: this.#waiting, store: this.#store }
    const { pluginOf } = this.gates
    return endOverdue({ ...parts, notices: this.#options.notices, pluginOf }, days, most)
  }

  /** Deletes what only the replay of old runs needs. */
  async tidy(): Promise<void> {
    await this.#waiting.poll()
    await endEphemeral(this.#store, this.#options.log, (...of) => this.deleteSession(...of))
    await this.#keeper.purge()
  }

  /** Lets go of every run as the death of the process would, once the database is out of reach: nothing is released. */
  drop(): void {
    this.#intake.close()
    this.#keeper.drop()
    for (const run of [...this.#carrier.live.values()]) run.feed.lose('the process died')
  }

  /** Lets go of every run, so that other processes take the runs over, and tells the readers to go on there. */
  close(graceMs = closeGraceMs): Promise<void> {
    this.#intake.close()
    this.#closing ??= this.#close(graceMs)
    return this.#closing
  }

  async #close(graceMs: number): Promise<void> {
    this.#readers.handOver()
    await this.#waiting.close()
    const holders = { store: this.#store, carrier: this.#carrier, keeper: this.#keeper }
    const tellers = { settler: this.#settler, replicas: this.#replicas, log: this.#options.log }
    await letGo({ ...holders, ...tellers }, graceMs)
    this.#followers.close()
    await this.#replicas.close()
  }
}
