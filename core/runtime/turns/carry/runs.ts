import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import type { Log, TurnEvent, Turns, User } from '../../../plugin.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import { Approvers } from './approvers.ts'
import { Audience } from './audience.ts'
import { ClientAnswers, type IncomingAnswer } from './client-answers.ts'
import { EventReader, type SentEvent } from '../events/reader.ts'
import { EventWindow } from '../events/window.ts'
import { Followers } from '../events/followers.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import type { CarriedRun, RunMoment } from './carried-run.ts'
import { type Beginning, beginRun } from '../journal/begin.ts'
import { type OpenRun, openRuns } from '../events/open-calls.ts'
import { moveHead } from '../journal/head.ts'
import { Carrier } from './carrier.ts'
import { Batcher } from '../events/batcher.ts'
import { alreadyRetried, listQuarantined, noteRetry, quarantinedMessage } from './quarantine.ts'
import { stopRuns } from './stop.ts'
import { type RunRow, RunStore } from '../journal/store.ts'
import { withRunTables } from '../journal/tables.ts'
import { runChannel } from '../journal/write.ts'
import type { Decision, Engine, TurnRequest } from '../run.ts'
import { type OracleFacts, Sessions } from '../journal/sessions.ts'
import type { Store } from '../../store/store.ts'
import { Seats, type TurnLimits } from '../limits.ts'

export interface RunsOptions {
  readonly store: Pick<Store, 'db' | 'unsynced' | 'synced' | 'kind' | 'listen' | 'notify'>
  readonly log: Log
  readonly engine: Engine
  readonly oracle: OracleFacts
  /** A run whose process is silent this long is taken over. */
  readonly leaseMs: number
  /** How long runs that have ended can be replayed. */
  readonly retentionHours: number
  /** What room-scoped state of a turn belongs to; by default the pair of user and oracle. */
  roomOf?(did: string, sessionId: string): string
  /** The room that clients are told with a session, where it has one outside of this runtime. */
  roomIdOf?(did: string, sessionId: string): string | undefined
  /** A user again, without a request: for a run that is taken over. By default one without capabilities. */
  restoreUser?(did: string): User | Promise<User>
  /** What the operator has granted, for users of whom a plugin tells only the DID. */
  readonly rights?: Rights
  /** Throws unless the user may talk to the agent. By default everybody may. */
  mayTalk?(user: User): Promise<void>
  /** Told before a run of another process is carried on. */
  onTakeover?(): void
  /** Deletes what others keep of a session. */
  onSessionDeleted?(sessionId: string): Promise<void>
  /** How long the client's own tools may be out of reach before a call of one fails. */
  readonly absenceMs?: number
  /** How many turns people may have; without it, as many as they like. */
  readonly limits?: TurnLimits
  /** Told of every moment at which a process may die; for tests, which end it there. */
  at?(moment: RunMoment, runId: string): void
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

/** A run that has begun, or that was there already. `live` is it when this process carries it. */
export interface Started {
  readonly runId: string
  readonly requestId: string
  readonly live?: CarriedRun
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
  readonly #readers = new Set<EventReader>()
  readonly #seats: Seats | undefined
  readonly #watching = new Map<string, Set<Watcher>>()
  #stopListening: (() => Promise<void>) | undefined
  #closing: Promise<void> | undefined

  constructor(options: RunsOptions) {
    const { store, log, engine, leaseMs, retentionHours, oracle, roomIdOf } = options
    this.#options = options
    this.#seats = options.limits && new Seats(options.limits)
    const db = withRunTables(store.db)
    const dialect = store.kind
    this.#store = new RunStore({
      store,
      owner: randomUUID(),
      leaseMs,
    })
    this.#followers = new Followers(this.#store, log)
    this.#audience = new Audience(
      (runId, sessionId) => this.#tell(`wanted ${runId} ${sessionId}`),
      options.absenceMs,
    )
    this.#approvers = new Approvers(
      dialect === 'postgres' ? (sessionId) => this.#tell(`asks ${sessionId}`) : undefined,
    )
    this.#answers = new ClientAnswers(this.#store, (payload) => this.#tell(payload), this.#audience)
    this.#carrier = new Carrier({
      store: this.#store,
      batcher: new Batcher(this.#store, log),
      answers: this.#answers,
      approvers: this.#approvers,
      engine,
      log,
      at: options.at ?? (() => {}),
    })
    this.#keeper = new LeaseKeeper({
      store: this.#store,
      log,
      leaseMs,
      retentionHours,
      live: this.#carrier.live,
      takeOver: (row) => this.#takeOver(row),
      onBeat: () => this.#answers.look(),
    })
    this.sessions = new Sessions({ db, dialect, oracle, roomIdOf })
  }

  /** Begins to listen to other replicas, and takes over what a process left behind. */
  async open(): Promise<void> {
    const { store } = this.#options
    // SQLite has one process: whoever is to be told is here and was told already.
    if (store.kind === 'postgres')
      this.#stopListening = await store.listen(
        runChannel,
        (payload) => this.#hear(payload),
        () => this.#missed(),
      )
    await this.#keeper.open()
  }

  /** Records a message as a run and begins to carry it out. */
  async send(message: NewMessage): Promise<Started> {
    const { user, sessionId, requestId = randomUUID(), request, address } = message
    await this.mayTalk(user)
    const { did } = user
    const seat = this.#seats?.for({ did, sessionId, address })
    try {
      const started = await this.#begin(user, { did, sessionId, requestId, request, seat })
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
    const request = await this.#store.requestOf(run.root_id)
    if (request === undefined) throw gone(runId)
    return this.#begin(user, {
      did: user.did,
      sessionId: run.session_id,
      requestId: randomUUID(),
      request: JSON.parse(request),
      answers: { run, decision },
    })
  }

  /** Throws unless the user may talk to the agent. What is his he reads and deletes all the same. */
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
    const underway = await this.openRun(sessionId)
    const other = underway.run ?? underway.waiting
    if (other)
      throw new RuntimeError('CONFLICT', `Run "${other.runId}" is under way in that session.`, {
        hint: 'A new turn would end it. Try again when it has ended.',
      })
    const user = await this.#restoreUser(did)
    // Named after the run that it repeats, so that two operators at once begin one turn. No client can have used the
    // name before: theirs are UUIDs.
    const started = await this.#begin(user, {
      did,
      sessionId,
      requestId: `retry:${runId}`,
      request: JSON.parse(request),
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
  async openRun(sessionId: string): Promise<Underway> {
    const run = await this.#store.openRun(sessionId)
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
  async subscribe(runId: string, after = 0, attends = false): Promise<EventReader> {
    const live = this.#carrier.live.get(runId)
    if (live) return this.#read(runId, live.requestId, after, attends)
    const run = await this.#store.find(runId)
    if (!run) throw new RuntimeError('NOT_FOUND', `There is no run "${runId}".`)
    if (run.purged) throw gone(runId)
    // Whoever asks from beyond the end is told the end.
    const last = isOpen(run) ? after : Math.min(after, run.last_seq - 1)
    return this.#read(runId, run.request_id, last, attends)
  }

  /**
   * Told of every run that begins in the session, wherever it is carried, and of the session's end.
   * Returns how to stop.
   */
  watch(sessionId: string, onRun: (runId: string) => void, onDeleted?: () => void): () => void {
    const watcher: Watcher = { onRun, onDeleted }
    const watchers = this.#watching.get(sessionId) ?? new Set()
    this.#watching.set(sessionId, watchers.add(watcher))
    return () => {
      watchers.delete(watcher)
      if (watchers.size === 0 && this.#watching.get(sessionId) === watchers)
        this.#watching.delete(sessionId)
    }
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
    // What was told already must be found there, and not told again.
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
    this.#passOnStop('aborted', stopped.runIds)
    return stopped.isKnown
  }

  /** Ends a session and everything in it. */
  async deleteSession(did: string, sessionId: string): Promise<void> {
    const runIds = await this.sessions.delete(did, sessionId)
    for (const run of this.#carrier.ofSession(sessionId)) run.feed.lose('its session was deleted')
    for (const runId of runIds) this.#followers.leave(runId)
    this.#tell(`deleted ${sessionId}`)
    this.#tellDeleted(sessionId)
    await this.#options.onSessionDeleted?.(sessionId)
  }

  /** What the engine left behind in the session, as its next run will be handed it. */
  async headOf(sessionId: string): Promise<string | undefined> {
    return (await this.#store.before({ session_id: sessionId, turn: Infinity })).checkpoint
  }

  /** Moves that between two runs. While one is under way, whose end will move it, this is a CONFLICT. */
  async moveHead(sessionId: string, checkpoint: string): Promise<void> {
    const outcome = await moveHead(this.#store, sessionId, checkpoint)
    if (outcome === 'no-session') throw this.sessions.unknown(sessionId)
    if (outcome === 'busy')
      throw new RuntimeError('CONFLICT', 'A turn is under way in this session.', {
        hint: 'Do it again when the turn has ended.',
      })
  }

  start(turn: Parameters<Turns['start']>[0]) {
    const events = this.#startTurn(turn)
    // A plugin may never look at the events; then a fault is the log's, not the process's end.
    events.catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'A turn that a plugin started did not begin'),
    )
    return turnEvents(events)
  }

  /** Hands every run over to whoever comes next, and tells the readers to go on there. */
  close(graceMs = closeGraceMs): Promise<void> {
    this.#closing ??= this.#close(graceMs)
    return this.#closing
  }

  async #begin(user: User, beginning: Beginning): Promise<Started> {
    if (this.#closing) throw closing()
    const { store, at } = { store: this.#store, at: this.#options.at }
    at?.('before the run is recorded', '')
    // Nothing has happened yet that a power cut could make untrue: what cannot be undone is marked on the disk first.
    const begun = await store.commits.atomic((trx) => beginRun(store, trx, beginning), 'unsynced')
    if (begun.outcome === 'no-session') throw this.sessions.unknown(beginning.sessionId)
    if (begun.outcome === 'known')
      return { runId: begun.run.id, requestId: begun.run.request_id, live: undefined }
    if (begun.outcome === 'not-waiting')
      throw notWaiting(
        (beginning.answers && (await store.find(beginning.answers.run.id))) as RunRow,
      )
    const { run, superseded, previous, checkpoint } = begun
    at?.('after the run is recorded', run.id)
    if (this.#closing) {
      await store.release([run.id])
      this.#tell('free')
      throw closing()
    }
    const live = this.#carrier.carry({
      row: run,
      request: beginning.request,
      user,
      room: this.#roomOf(user.did, run.session_id),
      takenOver: false,
      previous,
      checkpoint,
      seat: beginning.seat,
    })
    this.#passOnStop('superseded', superseded)
    this.#tellWatchers(run.session_id, run.id)
    return { runId: run.id, requestId: run.request_id, live }
  }

  async #takeOver(row: RunRow): Promise<CarriedRun | undefined> {
    const request = await this.#store.requestOf(row.id)
    if (request === undefined) return undefined
    const user = await this.#restoreUser(row.did)
    const before = await this.#store.before(row)
    this.#followers.leave(row.id)
    // It counts like any other turn, but nobody is asked: it was let in once.
    const seat =
      row.continues === null
        ? this.#seats?.for({ did: row.did, sessionId: row.session_id })
        : undefined
    seat?.occupy()
    this.#options.onTakeover?.()
    return this.#carrier.carry({
      row,
      request: JSON.parse(request),
      user,
      room: this.#roomOf(row.did, row.session_id),
      takenOver: true,
      seat,
      ...before,
    })
  }

  async #startTurn({
    user: given,
    session,
    message,
    requestId: key,
    signal,
  }: Parameters<Turns['start']>[0]): Promise<EventReader> {
    const user = withCapabilities(given, this.#options.rights)
    await this.mayTalk(user) // before a session is made
    if (session !== undefined) await this.sessions.ensure(user.did, session)
    const sessionId = session ?? (await this.sessions.create(user.did)).sessionId
    const { runId, requestId } = await this.send({
      user,
      sessionId,
      requestId: key,
      request: { message },
    })
    const stop = () =>
      this.abort(user.did, sessionId, requestId).catch((error: unknown) =>
        this.#options.log.warn({ err: error, runId }, 'A turn that a plugin stops may go on'),
      )
    if (signal?.aborted) void stop()
    else signal?.addEventListener('abort', stop, { once: true })
    return this.subscribe(runId)
  }

  #read(runId: string, requestId: string, after: number, attends: boolean): EventReader {
    const leave = attends ? this.#audience.enter(runId) : undefined
    const reader = new EventReader(
      {
        window: () => this.#windowOf(runId),
        page: (from) => this.#store.eventsAfter(runId, from),
        farewell: () => farewell(runId, requestId),
        onLeave: (left) => {
          this.#readers.delete(left)
          leave?.()
        },
      },
      after,
    )
    this.#readers.add(reader)
    if (this.#closing) reader.handOver()
    return reader
  }

  async #windowOf(runId: string): Promise<EventWindow> {
    const live = this.#carrier.live.get(runId)
    if (live) return live.feed.window
    const run = await this.#store.find(runId)
    if (run && isOpen(run))
      return (
        this.#carrier.live.get(runId)?.feed.window ?? this.#followers.windowOf(runId, run.last_seq)
      )
    const window = new EventWindow(run?.last_seq ?? 0)
    // Its session was deleted: whoever still reads is told that there is no more.
    if (!run) window.push([deleted(runId)])
    window.end()
    return window
  }

  /** Stops runs that are carried here, and has the others stopped where they are. */
  #passOnStop(why: 'aborted' | 'superseded', runIds: readonly string[]): void {
    for (const runId of runIds) {
      const live = this.#carrier.live.get(runId)
      if (live) live.stop(why)
      else this.#tell(`${why} ${runId}`)
    }
  }

  #tellWatchers(sessionId: string, runId: string): void {
    for (const { onRun } of this.#watching.get(sessionId) ?? []) onRun(runId)
  }

  #tellDeleted(sessionId: string): void {
    for (const { onDeleted } of this.#watching.get(sessionId) ?? []) onDeleted?.()
  }

  /** Tells the other replicas. They look into the database anyway, only later. */
  #tell(payload: string): void {
    const { store, log } = this.#options
    if (store.kind === 'sqlite') return
    store.notify(runChannel, payload).catch((error: unknown) => {
      log.debug({ err: error }, 'Other replicas were not told')
    })
  }

  #hear(payload: string): void {
    const [word, ...ids] = payload.split(' ')
    const [id = '', sessionId = ''] = ids
    if (word === 'events') for (const runId of ids) this.#followers.wake(runId)
    else if (word === 'ended') this.#carrier.nudge()
    else if (word === 'aborted' || word === 'superseded') this.#carrier.live.get(id)?.stop(word)
    else if (word === 'answered') this.#inBackground(this.#answers.arrived(id))
    else if (word === 'wanted') {
      if (this.#audience.has(id) || this.#audience.has(sessionId)) this.#tell(`here ${id}`)
    } else if (word === 'asks') {
      if (this.#approvers.hasHere(id)) this.#tell(`shows ${id}`)
    } else if (word === 'shows') this.#approvers.arrived(id)
    else if (word === 'here') this.#audience.arrived(id)
    else if (word === 'free') void this.#keeper.sweep()
    else if (word === 'began') {
      if (!this.#carrier.live.has(id)) this.#tellWatchers(sessionId, id)
    } else if (word === 'deleted') {
      for (const run of this.#carrier.ofSession(id)) run.feed.lose('its session was deleted')
      this.#tellDeleted(id)
    }
  }

  /** The connection to the database broke: what was told meanwhile is looked up. */
  #missed(): void {
    this.#followers.wakeAll()
    this.#carrier.nudge()
    void this.#keeper.sweep()
    this.#inBackground(this.#answers.look())
  }

  #inBackground(work: Promise<void>): void {
    work.catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'The database could not be asked; trying again'),
    )
  }

  async #close(graceMs: number): Promise<void> {
    for (const reader of this.#readers) reader.handOver()
    await this.#keeper.close()
    const runs = [...this.#carrier.live.values()]
    for (const run of runs) run.handOver()
    await Promise.race([this.#carrier.settled(), sleep(graceMs, undefined, { ref: false })])
    for (const run of runs) run.feed.close()
    const written = Promise.allSettled(runs.map((run) => run.feed.flush()))
    await Promise.race([written, sleep(graceMs, undefined, { ref: false })])
    try {
      await this.#store.release(runs.map(({ runId }) => runId))
      await this.#keeper.leave()
      this.#tell('free')
    } catch (error) {
      this.#options.log.warn({ err: error }, 'Runs could not be released; their leases run out')
    }
    for (const run of runs) run.feed.lose('the server closes')
    this.#followers.close()
    await this.#stopListening?.()
  }

  #roomOf(did: string, sessionId: string): string {
    return this.#options.roomOf?.(did, sessionId) ?? `${did}:${this.#options.oracle.did}`
  }

  async #restoreUser(did: string): Promise<User> {
    return (
      (await this.#options.restoreUser?.(did)) ?? withCapabilities({ did }, this.#options.rights)
    )
  }
}

interface Watcher {
  onRun(runId: string): void
  onDeleted?(): void
}

const isOpen = ({ status }: RunRow) => status === 'queued' || status === 'running'

const closing = () =>
  new RuntimeError('UNAVAILABLE', 'The server is closing.', {
    hint: 'Send it again: another server takes it, or this one when it is back.',
  })

const gone = (runId: string) =>
  new RuntimeError('GONE', `The events of run "${runId}" are not kept any more.`, {
    hint: 'GET /messages/:sessionId has the conversation.',
  })

function notWaiting({ id, status }: RunRow): RuntimeError {
  const why =
    status === 'continued'
      ? 'it was answered already'
      : isOpen({ status } as RunRow)
        ? 'it is still running'
        : `it is ${status}`
  return new RuntimeError('CONFLICT', `Run "${id}" does not wait for an answer: ${why}.`)
}

/** The last event of a stream whose server closes: the client goes on with another. */
const farewell = (runId: string, requestId: string): SentEvent => ({
  event: 'run',
  data: JSON.stringify({ runId, requestId, handover: true }),
})

const deleted = (runId: string) => ({
  id: Number.MAX_SAFE_INTEGER,
  event: 'done',
  data: JSON.stringify({ runId, status: 'aborted' }),
})

/** A user of whom only the name is known may do what needs no capability, and what the operator granted that DID. */
function withCapabilities(user: User | { readonly did: string }, rights?: Rights): User {
  if ('can' in user) return user
  const { did } = user
  const can = (ability: string, resource = did) =>
    resource === rights?.oracleDid && rights.granted(did, ability)
  return {
    did,
    can,
    denial: (ability, resource) =>
      can(ability, resource) ? [] : ['No delegation of the user came with this turn.'],
  }
}

async function* turnEvents(reader: Promise<EventReader>): AsyncGenerator<TurnEvent> {
  for await (const { id, event, data } of await reader)
    if (id !== undefined) yield { seq: id, event, data: JSON.parse(data) }
}
