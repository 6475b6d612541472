import type { Proof } from '../../http/routes/access.ts'
import type { RunAdmission, User } from '../../../plugin.ts'
import type { SentEvent } from '../events/reader.ts'
import type { RunRow } from '../journal/store.ts'
import type { Watcher } from '../events/watchers.ts'
import type { Heard } from '../redaction/cutter.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { Decision, TurnRequest } from '../run.ts'

/** A run that has begun, or that was there already. `live` is there where this process carries the run. */
export interface BegunRun {
  readonly runId: string
  readonly requestId: string
  /** The session of the run: another one than asked for when the user has sent the same request id in another session. */
  readonly sessionId: string
  readonly live?: object
}

/** A turn that waits until its session is free. */
export interface QueuedTurn {
  readonly waitingId: string
  readonly requestId: string
  readonly sessionId: string
  readonly isNew: boolean
}

/** A message that is to become a run. */
export interface SubmittedTurn {
  readonly user: User
  readonly sessionId: string
  readonly requestId?: string
  readonly request: TurnRequest
  /** Where the message came from, when it came by HTTP. */
  readonly address?: string
  /** What becomes of the message where the session is busy. By default the turn under way ends. */
  readonly whenBusy?: 'wait' | 'refuse'
  readonly koa?: RunAdmission['koa']
  /** What is left to prove of the user, where the statement that records the turn can find that out. */
  readonly proof?: Proof
}

/** What the turns of plugins go through: the runs of the app, as far as plugins reach them. */
export interface TurnDoor {
  readonly sessions: Sessions
  mayTalk(user: User): Promise<void>
  submit(message: SubmittedTurn): Promise<BegunRun | QueuedTurn>
  subscribe(runId: string, after?: number): Promise<AsyncIterableIterator<SentEvent>>
  demand(did: string, runId: string): Promise<RunRow>
  resume(user: User, runId: string, decision: Decision, requestId?: string): Promise<BegunRun>
  underway(sessionId: string): Promise<{
    readonly run: { readonly runId: string } | null
    readonly waiting?: { readonly runId: string }
  }>
  watch(sessionId: string, watcher: Watcher): () => void
  cut(heard: Heard): Promise<boolean>
  redact(did: string, sessionId: string, requestId: string): Promise<boolean>
  abort(did: string, sessionId: string, requestId?: string): Promise<boolean>
  discardSession(did: string, sessionId: string): Promise<void>
}
