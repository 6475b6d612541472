import type { Database, Log, User } from '../../../plugin.ts'
import type { Places } from '../../http/limits/places.ts'
import type { Runs } from '../carry/runs.ts'
import { type RunDatabase, withRunTables } from '../journal/tables.ts'
import type { TurnRequest } from '../run.ts'
import { Search } from '../sessions/search.ts'
import type { Branches, KeptAt } from '../branches/branches.ts'
import { branchRoutes } from './branch-routes.ts'
import { messageRoutes } from './message-routes.ts'
import type { TurnRoutes } from './route-keys.ts'
import { runRoutes } from './run-routes.ts'
import { sessionRoutes } from './session-routes.ts'
import { Traces } from './trace.ts'
import { Transcripts } from './transcript.ts'

/** What the routes of turns are made of. */
export interface TurnRoutesOptions {
  readonly runs: Runs
  readonly db: Database
  readonly log: Log
  /** Throws for a message that cannot become a turn, before anything of it is recorded. */
  checkRequest?(request: TurnRequest): void
  /** Loads capabilities into a session by hand; its result is the answer. */
  loadCapabilities?(about: {
    readonly user: User
    readonly sessionId: string
    readonly names: readonly string[]
  }): unknown
  /** Conversations that branch off from others. */
  readonly branches?: Branches
  /** What a session had loaded and kept at a step; its result is the answer. */
  stateAt?(kept: KeptAt): unknown
  /** Whether a user may read what is kept of their own sessions: while plugins are written. */
  readonly showsState?: boolean
  /** The arguments of a tool that traces hide. */
  redactOf?(tool: string): readonly string[] | undefined
  /** Where open event streams are counted: a turn whose stream could not be opened does not begin. */
  readonly streams?: Places
  /** Counts one search of a user, or throws for one too many. */
  countSearch?(did: string): Promise<void>
}

/** The parts of the routes: the options, with the transcripts that the routes read in place of the database. */
export interface RouteParts extends Omit<TurnRoutesOptions, 'db' | 'redactOf'> {
  readonly db: RunDatabase
  readonly transcripts: Transcripts
  readonly traces: Traces
  readonly search: Search
}

/** The routes of sessions, messages and runs. */
export function turnRoutes({ db, redactOf, ...options }: TurnRoutesOptions): TurnRoutes {
  const tables = withRunTables(db)
  const traces = new Traces(tables, redactOf)
  const parts: RouteParts = {
    ...options,
    ...{ db: tables, traces },
    ...{ transcripts: new Transcripts(tables), search: new Search(tables) },
  }
  return {
    ...sessionRoutes(parts),
    ...branchRoutes(parts),
    ...messageRoutes(parts),
    ...runRoutes(parts),
  }
}
