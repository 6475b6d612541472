import type { Rights } from '../../auth/grants/rights.ts'
import type { User } from '../../../plugin.ts'
import type { Followers } from '../events/followers.ts'
import type { Watchers } from '../events/watchers.ts'
import { type Beginning, beginRun } from '../journal/begin.ts'
import { releaseRuns } from '../journal/leases.ts'
import type { Sessions } from '../journal/sessions.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import type { Seats } from '../limits.ts'
import type { CarriedRun, RunMoment } from './carried-run.ts'
import type { Carrier } from './carrier.ts'
import { asUser } from './plugin-turn.ts'
import { closing, notWaiting } from './refusals.ts'
import type { Replicas } from './replicas.ts'

/** A run that has begun, or that was there already. `live` is it when this process carries it. */
export interface Started {
  readonly runId: string
  readonly requestId: string
  readonly live?: CarriedRun
}

/** What the app says of the users and rooms of runs. */
export interface IntakeRules {
  /** What room-scoped state of a turn belongs to; by default the pair of user and oracle. */
  roomOf?(did: string, sessionId: string): string
  /** A user again, without a request: for a run that is taken over. By default one without capabilities. */
  restoreUser?(did: string): User | Promise<User>
  /** What the operator has granted, for users of whom a plugin tells only the DID. */
  readonly rights?: Rights
  /** Told before a run of another process is carried on. */
  onTakeover?(): void
  /** Told of every moment at which a process may die; for tests, which end it there. */
  at?(moment: RunMoment, runId: string): void
}

/** Where an intake has runs recorded and carried, and who is to know. */
export interface IntakeParts {
  readonly store: RunStore
  readonly sessions: Sessions
  readonly carrier: Carrier
  readonly followers: Followers
  readonly watchers: Watchers
  readonly replicas: Replicas
  readonly seats: Seats | undefined
  readonly oracleDid: string
}

/** How a run comes to this process: begun by a message or a decision, or taken over from a process that left it. */
export class Intake {
  readonly #parts: IntakeParts
  readonly #rules: IntakeRules
  #closing = false

  constructor(parts: IntakeParts, rules: IntakeRules) {
    this.#parts = parts
    this.#rules = rules
  }

  /** Takes no new run any more. */
  close(): void {
    this.#closing = true
  }

  /** Records a run and carries it. */
  async begin(user: User, beginning: Beginning): Promise<Started> {
    if (this.#closing) throw closing()
    const { store, sessions, carrier, replicas, watchers } = this.#parts
    const { sessionId, request, answers, seat } = beginning
    this.#rules.at?.('before the run is recorded', '')
    // Nothing has happened yet that a power cut could make untrue: what cannot be undone is marked on the disk first.
    const begun = await store.commits.atomic((trx) => beginRun(store, trx, beginning), 'unsynced')
    if (begun.outcome === 'no-session') throw sessions.unknown(sessionId)
    if (begun.outcome === 'known')
      return { runId: begun.run.id, requestId: begun.run.request_id, live: undefined }
    if (begun.outcome === 'not-waiting') throw await this.#notWaiting(answers?.run)
    const { run, superseded, previous, checkpoint } = begun
    this.#rules.at?.('after the run is recorded', run.id)
    if (this.#closing) {
      await releaseRuns(store, [run.id])
      replicas.tell('free')
      throw closing()
    }
    const live = carrier.carry({
      row: run,
      request,
      user,
      room: this.#roomOf(user.did, sessionId),
      takenOver: false,
      previous,
      checkpoint,
      seat,
    })
    for (const runId of carrier.stop(superseded, 'superseded')) replicas.tell('superseded', runId)
    watchers.began(sessionId, run.id)
    return { runId: run.id, requestId: run.request_id, live }
  }

  /** Carries a run that another process left. Undefined when its request is not kept any more. */
  async takeOver(row: RunRow): Promise<CarriedRun | undefined> {
    const { store, followers, carrier, seats } = this.#parts
    const request = await store.requestOf(row)
    if (request === undefined) return undefined
    const user = await this.restoreUser(row.did)
    const before = await store.before(row)
    followers.leave(row.id)
    // The run counts like any other turn, and takes its seat without asking: the door let its message in once.
    const seat =
      row.continues === null ? seats?.for({ did: row.did, sessionId: row.session_id }) : undefined
    seat?.occupy()
    this.#rules.onTakeover?.()
    return carrier.carry({
      row,
      request,
      user,
      room: this.#roomOf(row.did, row.session_id),
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

  #roomOf(did: string, sessionId: string): string {
    return this.#rules.roomOf?.(did, sessionId) ?? `${did}:${this.#parts.oracleDid}`
  }
}
