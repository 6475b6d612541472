import type { Migration } from '../../../plugin.ts'
import { rebuildWithoutRowids } from '../../store/without-rowids.ts'
import { isPostgres } from '../search/tables.ts'

/** What stays of the indexes of sessions. */
const kept = ['user', 'plugin', 'room', 'family'].map((name) => `kernel_sessions_by_${name}`)

/**
 * The indexes of runs. The names of runs are unique for the user, but for those of before, which have an index that is
 * nearly empty; a run comes to the index of ended runs with its end, and one index has all that are under way.
 */
const indexes = [
  'create unique index kernel_runs_by_turn on kernel_runs (session_id, turn)',
  'create unique index kernel_runs_by_name on kernel_runs (did, request_id) where namesake = 0',
  `create unique index kernel_runs_namesakes on kernel_runs (session_id, request_id)
    where namesake <> 0`,
  `create index kernel_runs_under_way on kernel_runs (did, session_id, status)
    where status in ('queued', 'running', 'waiting')`,
  `create index kernel_runs_to_purge on kernel_runs (ended_at)
    where purged = 0 and ended_at is not null`,
]

/**
 * Has SQLite write fewer pages for each turn: sessions and runs stand in the order of their ids, and runs have those indexes
 * that a query uses. PostgreSQL keeps its tables, whose rows lie elsewhere than in the order of any key.
 */
export const fewerPagesMigration: Migration = async (db) => {
  if (isPostgres(db)) return
  await rebuildWithoutRowids(db, {
    table: 'kernel_sessions',
    key: ['id'],
    kept: [...kept, 'kernel_sessions_ephemeral'],
  })
  await rebuildWithoutRowids(db, { table: 'kernel_runs', key: ['id'], indexes })
}
