import { sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/** A turn that a plugin started while another was under way: the turn begins when its session is free. */
export interface WaitingTurnsTable {
  /** The id that the run of the turn will have. */
  id: string
  session_id: string
  did: string
  request_id: string
  /** The place in the session's queue: the lowest begins first. */
  place: number
  /** The request of the turn, as JSON. */
  request: string
  /** The name of the caller's address in the table of turns per day, where the turn counts for one. */
  address: string | null
  created_at: number
}

const statements = [
  `create table kernel_waiting_turns (
    id text primary key, session_id text not null, did text not null, request_id text not null,
    place integer not null, request text not null, address text, created_at bigint not null,
    unique (session_id, place), unique (did, request_id))`,
  'create index kernel_waiting_turns_by_age on kernel_waiting_turns (created_at)',
  'alter table kernel_runs add column cause text',
  'alter table kernel_runs add column namesake integer not null default 0',
  // A user's runs have had one name in several sessions: the first of them keeps the name for the user.
  `update kernel_runs set namesake = 1 where id in (
    select id from (
      select id, row_number() over (partition by did, request_id order by created_at, id) as nth
      from kernel_runs) as numbered
    where nth > 1)`,
  'create unique index kernel_runs_by_name on kernel_runs (did, request_id) where namesake = 0',
]

/** The table of turns that wait, the cause of a run's end, and names of runs that are unique for the user. */
export const waitingTurnsMigration: Migration = async (db) => {
  for (const statement of statements) await sql.raw(statement).execute(db)
}
