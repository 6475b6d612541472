import type { Telemetry } from '../../telemetry/telemetry.ts'
import type { Log, RunUsage } from '../../../plugin.ts'
import type { Notices } from '../../notices/notices.ts'
import type { Store } from '../../store/store.ts'
import type { CommitStore } from '../journal/commits.ts'
import type { RunGates } from '../gates/gates.ts'
import type { TurnLimits } from '../limits.ts'
import type { RunRow } from '../journal/store.ts'
import type { Decision, Engine, Run, TurnRequest } from '../run.ts'
import type { SpeakerRules } from '../said/speaker.ts'
import type { OracleFacts } from '../sessions/sessions.ts'
import type { IntakeRules } from './intake.ts'

/** How the runs of an app begin. */
export interface OpeningRuns {
  /** Work that comes before anything is taken over. */
  before?(): Promise<void>
  /** False: nothing that others left is ever taken over. */
  readonly takesOver?: boolean
}

/** What the runs of an app are made of. */
export interface RunsOptions extends IntakeRules, SpeakerRules {
  readonly store: CommitStore & Pick<Store, 'listen' | 'notify'>
  readonly log: Log
  readonly engine: Engine
  /** What an answer cost whose engine is gone, judged by the words that it said. By default nobody knows. */
  usageOf?(run: Run, said: string): Promise<RunUsage | undefined>
  readonly oracle: OracleFacts
  /** A run whose process is silent this long is taken over. */
  readonly leaseMs: number
  /** How many runs this process carries at most when it takes over what other processes left. */
  readonly runsPerProcess?: number
  /** How long runs that have ended can be replayed. */
  readonly retentionHours: number
  /** False where somebody else calls `tidy` again and again: then this process looks for old runs only when asked. */
  readonly purgesItself?: boolean
  /** The room id that clients are told of a user's sessions without a room of their own, if there is one. */
  roomIdOf?(did: string): Promise<string | undefined>
  /** Deletes what the engine left behind at one place of a session. */
  forgetCheckpoint?(sessionId: string, checkpoint: string): Promise<void>
  /** Deletes what others keep of a session. */
  onSessionDeleted?(sessionId: string): Promise<void>
  /** Has whoever remembers a conversation read it again: words of it were taken back. */
  onRedacted?(sessionId: string): void
  /** How long the client's own tools may be out of reach before a call of one fails. */
  readonly absenceMs?: number
  /** How many turns people may have; without it, as many as they like. */
  readonly limits?: TurnLimits
  /** Throws for a request of a plugin that cannot become a turn, before anything of it is recorded. */
  checkRequest?(request: TurnRequest): void
  /** Throws for a decision that the waiting call cannot be carried out with; the run then waits on. */
  checkDecision?(run: RunRow, decision: Decision): Promise<void>
  /** Makes a branch of a conversation that ends before a message; resolves to its session. Without it there are no branches. */
  fork?(did: string, sessionId: string, before: string): Promise<string>
  /** What plugins say to the beginning and the end of turns; without it, nothing. */
  readonly gates?: RunGates
  /** Tells users what goes on in their sessions, also users who do not have the session open. */
  readonly notices?: Notices
  /** Watches the turns of this process; without it nobody does. */
  readonly telemetry?: Telemetry
}
