import { sql, type Generated, type Kysely } from 'kysely'
import type { Database, Migration, RunCause } from '../../../plugin.ts'
import { saidMigrations, type SaidTables } from '../said-tables.ts'
import { type BranchColumns, branchesMigration, ephemeralMigration } from '../branch-tables.ts'
import { beginFunctionMigrations } from '../functions/begin.ts'
import { fewerPagesMigration } from '../indexes/fewer-pages.ts'
import { searchMigration } from '../search/tables.ts'
import { waitingTurnsMigration } from '../waiting-tables.ts'
import { runFormsMigration } from '../stored-version.ts'
import { fewerPagesOfEndsMigration, settlingMigration, type UnsettledTable } from '../unsettled.ts'

/** Where a run stands. `continued`: it waited for a person, and another run went on from there. */
export type RunStatus =
  'queued' | 'running' | 'waiting' | 'continued' | 'finished' | 'aborted' | 'interrupted' | 'failed'

/** Why somebody wants a run to end early. */
export type Stop = 'aborted' | 'superseded'

/** A conversation. */
export interface SessionsTable extends BranchColumns {
  id: string
  did: string
  title: string | null
  /** How many runs it has had: each takes the next number as its `turn`. */
  turns: number
  created_at: number
  updated_at: number
  /** The room that its state is shared in, `<plugin>:<room>`; null where it has none of its own. */
  room: Generated<string | null>
  /** The plugin that began it; null where the user did. */
  plugin: Generated<string | null>
  /** The id of the model that its user chose last; null for the default. */
  model: Generated<string | null>
  /** 1 where others read along in its room. */
  shared: Generated<number>
  /** How often words of it were taken back: what a process remembers from before holds no more. */
  redactions: Generated<number>
}

/** A run: one turn, or the part of a turn before or after an approval. */
export interface RunsTable {
  id: string
  session_id: string
  did: string
  turn: number
  /** The first run of a chain of approvals, and its turn; a run of its own is its own root. */
  root_id: string
  root_turn: number
  continues: string | null
  decision: string | null
  /** The name that the client gave the run; a repeated message finds it by this. */
  request_id: string
  status: RunStatus
  stop: Stop | null
  /** Why the run came to another end than its own. */
  cause: Generated<RunCause | null>
  /** The process that carries the run, for as long as `lease_until` says; null when any process may take it. */
  owner: string | null
  epoch: number
  lease_until: number
  /** How often the run was taken over since it last got on. */
  attempts: number
  /** How many of these takeovers followed the death of the process that carried it. */
  deaths: Generated<number>
  /** The process whose death was counted last, should that process turn out to be alive after all. */
  died_with: Generated<string | null>
  /** 1 while its process carries no other run that died before: then a further death is this run's doing. */
  on_trial: Generated<number>
  /** Counts the writes of the owner, so that one repeated after a lost answer is recognised. */
  version: number
  last_seq: number
  /** The last event, and the length of the text, that the journal covers. */
  kept_seq: number
  kept_length: number
  /** How many rows its journal has. */
  steps: number
  checkpoint: string | null
  created_at: number
  ended_at: number | null
  /** 1 once its events are gone. */
  purged: number
  /** 1 where an earlier run of the user has the same name: earlier versions of the runtime had names by session. */
  namesake: Generated<number>
}

/**
 * What of a request stands beside its words, which the journal holds: apart from `kernel_runs`, whose rows are written often.
 */
export interface RequestsTable {
  run_id: string
  request: string
}

/** The events of one batch: a line each of `seq`, name and JSON, with tabs between. */
export interface EventsTable {
  run_id: string
  first_seq: number
  last_seq: number
  body: string
}

/**
 * What the journal and the transcript are read from. `inner` is a message between a sub-agent and its
 * model, a `note` what a step changed beside its messages, a `summary` such a note with a summary of the conversation.
 */
export interface StepsTable {
  session_id: string
  /** The turn and the number of the row within it, in one number that rises through the session. */
  position: number
  run_id: string
  root_id: string
  step: number
  /** `plugin`: the words that began the run are a plugin's and not the user's. */
  kind: 'user' | 'plugin' | 'assistant' | 'tool' | 'inner' | 'note' | 'summary'
  body: string
  created_at: number
}

/** Writes of tools, marked before they start and when they are done. */
export interface EffectsTable {
  session_id: string
  root_id: string
  tool_call_id: string
  tool: string
  state: 'started' | 'done'
  content: string | null
  failed: number
}

/** The whole results of calls of which the model read a part. */
export interface ResultsTable {
  session_id: string
  root_id: string
  tool_call_id: string
  handle: string
  bytes: number
  body: string
  /** Whose words the result holds, as JSON; null for the plugin's own. */
  source: string | null
}

/** The calls that the server asked clients to carry out, and their results. */
export interface ClientAnswersTable {
  run_id: string
  tool_call_id: string
  answer: string | null
}

/** The head of a session that was moved between two runs: what the engine left behind, as `moveHead` replaced it. */
export interface HeadsTable {
  session_id: string
  turn: number
  checkpoint: string
}

/** Runs that were stopped before they arrived. */
export interface EarlyStopsTable {
  session_id: string
  request_id: string
  until: number
}

/** How many turns somebody has begun on a day; `who` is a DID or the digest of an address. */
export interface TurnCountsTable {
  who: string
  /** Days since 1970, by UTC. */
  day: number
  turns: number
}

/** Which processes are alive. SQLite has one process, so only PostgreSQL needs the table. */
export interface ProcessesTable {
  owner: string
  alive_until: number
}

/** Runs whose process died twice while it carried them, for the operator to look at. */
export interface QuarantineTable {
  run_id: string
  session_id: string
  did: string
  at: number
  attempts: number
  /** How many rows its journal had, before the notice that closed it. */
  steps: number
  /** The run that tried its message again. */
  retried_as: string | null
}

/** All tables of sessions and runs. A type and no interface, because only a type satisfies Kysely's index signature. */
export type RunTables = {
  kernel_sessions: SessionsTable
  kernel_runs: RunsTable
  kernel_run_requests: RequestsTable
  kernel_run_events: EventsTable
  kernel_steps: StepsTable
  kernel_effects: EffectsTable
  kernel_results: ResultsTable
  kernel_client_answers: ClientAnswersTable
  kernel_heads: HeadsTable
  kernel_early_stops: EarlyStopsTable
  kernel_turn_counts: TurnCountsTable
  kernel_processes: ProcessesTable
  kernel_quarantine: QuarantineTable
  kernel_unsettled: UnsettledTable
} & SaidTables

/** A connection, or a transaction, that knows the tables of sessions and runs. */
export type RunDatabase = Kysely<RunTables>
/** Which database it is. */
export type Dialect = 'sqlite' | 'postgres'

/** The same connections, with the tables of this file. */
export const withRunTables = (db: Database): RunDatabase => db.withTables<RunTables>()

/** The tables of sessions and runs. A migration stays one function, and as it was first released: databases have run it. */
export const runMigrations: Readonly<Record<string, Migration>> = {
  '001-sessions-and-runs': async (db) => {
    await db.schema
      .createTable('kernel_sessions')
      .addColumn('id', 'text', (c) => c.primaryKey())
      .addColumn('did', 'text', (c) => c.notNull())
      .addColumn('title', 'text')
      .addColumn('turns', 'integer', (c) => c.notNull().defaultTo(0))
      .addColumn('created_at', 'bigint', (c) => c.notNull())
      .addColumn('updated_at', 'bigint', (c) => c.notNull())
      .execute()
    await db.schema
      .createIndex('kernel_sessions_by_user')
      .on('kernel_sessions')
      .columns(['did', 'updated_at'])
      .execute()
    await db.schema
      .createTable('kernel_runs')
      .addColumn('id', 'text', (c) => c.primaryKey())
      .addColumn('session_id', 'text', (c) => c.notNull())
      .addColumn('did', 'text', (c) => c.notNull())
      .addColumn('turn', 'integer', (c) => c.notNull())
      .addColumn('root_id', 'text', (c) => c.notNull())
      .addColumn('root_turn', 'integer', (c) => c.notNull())
      .addColumn('continues', 'text')
      .addColumn('decision', 'text')
      .addColumn('request_id', 'text', (c) => c.notNull())
      .addColumn('status', 'text', (c) => c.notNull())
      .addColumn('stop', 'text')
      .addColumn('owner', 'text')
      .addColumn('epoch', 'integer', (c) => c.notNull().defaultTo(1))
      .addColumn('lease_until', 'bigint', (c) => c.notNull())
      .addColumn('attempts', 'integer', (c) => c.notNull().defaultTo(0))
      .addColumn('version', 'integer', (c) => c.notNull().defaultTo(0))
      .addColumn('last_seq', 'bigint', (c) => c.notNull().defaultTo(0))
      .addColumn('kept_seq', 'bigint', (c) => c.notNull().defaultTo(0))
      .addColumn('kept_length', 'bigint', (c) => c.notNull().defaultTo(0))
      .addColumn('steps', 'integer', (c) => c.notNull().defaultTo(0))
      .addColumn('checkpoint', 'text')
      .addColumn('created_at', 'bigint', (c) => c.notNull())
      .addColumn('ended_at', 'bigint')
      .addColumn('purged', 'integer', (c) => c.notNull().defaultTo(0))
      .addUniqueConstraint('kernel_runs_by_turn', ['session_id', 'turn'])
      .addUniqueConstraint('kernel_runs_by_request', ['session_id', 'request_id'])
      .execute()
    // The index is small, and the writes of a running run do not touch it: PostgreSQL then updates the run's row in place.
    await sql`create index kernel_runs_open on kernel_runs (session_id)
      where status in ('queued', 'running', 'waiting')`.execute(db)
    await sql`create index kernel_runs_to_purge on kernel_runs (ended_at)
      where purged = 0`.execute(db)

    await db.schema
      .createTable('kernel_run_requests')
      .addColumn('run_id', 'text', (c) => c.primaryKey())
      .addColumn('request', 'text', (c) => c.notNull())
      .execute()
    await db.schema
      .createTable('kernel_run_events')
      .addColumn('run_id', 'text', (c) => c.notNull())
      .addColumn('first_seq', 'bigint', (c) => c.notNull())
      .addColumn('last_seq', 'bigint', (c) => c.notNull())
      .addColumn('body', 'text', (c) => c.notNull())
      .addPrimaryKeyConstraint('kernel_run_events_pk', ['run_id', 'last_seq'])
      .execute()
    await db.schema
      .createTable('kernel_steps')
      .addColumn('session_id', 'text', (c) => c.notNull())
      .addColumn('position', 'bigint', (c) => c.notNull())
      .addColumn('run_id', 'text', (c) => c.notNull())
      .addColumn('root_id', 'text', (c) => c.notNull())
      .addColumn('step', 'integer', (c) => c.notNull())
      .addColumn('kind', 'text', (c) => c.notNull())
      .addColumn('body', 'text', (c) => c.notNull())
      .addColumn('created_at', 'bigint', (c) => c.notNull())
      .addPrimaryKeyConstraint('kernel_steps_pk', ['session_id', 'position'])
      .execute()
    await db.schema
      .createTable('kernel_effects')
      .addColumn('session_id', 'text', (c) => c.notNull())
      .addColumn('root_id', 'text', (c) => c.notNull())
      .addColumn('tool_call_id', 'text', (c) => c.notNull())
      .addColumn('tool', 'text', (c) => c.notNull())
      .addColumn('state', 'text', (c) => c.notNull())
      .addColumn('content', 'text')
      .addColumn('failed', 'integer', (c) => c.notNull().defaultTo(0))
      .addPrimaryKeyConstraint('kernel_effects_pk', ['session_id', 'root_id', 'tool_call_id'])
      .execute()
    await db.schema
      .createTable('kernel_client_answers')
      .addColumn('run_id', 'text', (c) => c.notNull())
      .addColumn('tool_call_id', 'text', (c) => c.notNull())
      .addColumn('answer', 'text')
      .addPrimaryKeyConstraint('kernel_client_answers_pk', ['run_id', 'tool_call_id'])
      .execute()
    await db.schema
      .createTable('kernel_heads')
      .addColumn('session_id', 'text', (c) => c.notNull())
      .addColumn('turn', 'integer', (c) => c.notNull())
      .addColumn('checkpoint', 'text', (c) => c.notNull())
      .addPrimaryKeyConstraint('kernel_heads_pk', ['session_id', 'turn'])
      .execute()
    await db.schema
      .createTable('kernel_early_stops')
      .addColumn('session_id', 'text', (c) => c.notNull())
      .addColumn('request_id', 'text', (c) => c.notNull())
      .addColumn('until', 'bigint', (c) => c.notNull())
      .addPrimaryKeyConstraint('kernel_early_stops_pk', ['session_id', 'request_id'])
      .execute()
  },

  '002-turn-counts': async (db) => {
    await db.schema
      .createTable('kernel_turn_counts')
      .addColumn('who', 'text', (c) => c.notNull())
      .addColumn('day', 'integer', (c) => c.notNull())
      .addColumn('turns', 'integer', (c) => c.notNull())
      .addPrimaryKeyConstraint('kernel_turn_counts_pk', ['who', 'day'])
      .execute()
    // As small as `kernel_runs_open`: it holds what is under way and nothing else.
    await sql`create index kernel_runs_at_work on kernel_runs (did)
      where status in ('queued', 'running')`.execute(db)
  },

  '003-quarantine': async (db) => {
    const runs = () => db.schema.alterTable('kernel_runs')
    await runs()
      .addColumn('deaths', 'integer', (c) => c.notNull().defaultTo(0))
      .execute()
    await runs().addColumn('died_with', 'text').execute()
    await runs()
      .addColumn('on_trial', 'integer', (c) => c.notNull().defaultTo(0))
      .execute()
    await db.schema
      .createTable('kernel_processes')
      .addColumn('owner', 'text', (c) => c.primaryKey())
      .addColumn('alive_until', 'bigint', (c) => c.notNull())
      .execute()
    await db.schema
      .createTable('kernel_quarantine')
      .addColumn('run_id', 'text', (c) => c.primaryKey())
      .addColumn('session_id', 'text', (c) => c.notNull())
      .addColumn('did', 'text', (c) => c.notNull())
      .addColumn('at', 'bigint', (c) => c.notNull())
      .addColumn('attempts', 'integer', (c) => c.notNull())
      .addColumn('steps', 'integer', (c) => c.notNull())
      .addColumn('retried_as', 'text')
      .execute()
    await db.schema
      .createIndex('kernel_quarantine_by_session')
      .on('kernel_quarantine')
      .column('session_id')
      .execute()
  },

  '004-results': async (db) => {
    await db.schema
      .createTable('kernel_results')
      .addColumn('session_id', 'text', (c) => c.notNull())
      .addColumn('root_id', 'text', (c) => c.notNull())
      .addColumn('tool_call_id', 'text', (c) => c.notNull())
      .addColumn('handle', 'text', (c) => c.notNull())
      .addColumn('bytes', 'integer', (c) => c.notNull())
      .addColumn('body', 'text', (c) => c.notNull())
      .addColumn('source', 'text')
      .addPrimaryKeyConstraint('kernel_results_pk', ['session_id', 'handle'])
      .execute()
  },
  '005-waiting-turns': waitingTurnsMigration,
  '006-rooms': saidMigrations.rooms,
  '007-settling': settlingMigration,
  '008-session-models': (db) =>
    db.schema.alterTable('kernel_sessions').addColumn('model', 'text').execute(),
  '009-shared-sessions': saidMigrations.shared,
  '010-redactions': saidMigrations.redactions,
  '011-stored-forms': runFormsMigration,
  '012-branches': branchesMigration,
  '013-ephemeral-sessions': ephemeralMigration,
  '014-search': searchMigration,
  '015-begin-at-once': beginFunctionMigrations.first,
  '016-fewer-pages': fewerPagesMigration,
  '017-fewer-pages-of-ends': fewerPagesOfEndsMigration,
  '018-begin-with-proof': beginFunctionMigrations.second,
}
