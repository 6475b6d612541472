import { sql } from 'kysely'
import { Pace } from '../../watchdog/pace.ts'
import { isOpenIn } from '../indexes/open-runs.ts'
import { slices, type RunStore } from './store.ts'

const hourMs = 3_600_000

/**
 * Has the checkpoints forgotten at which runs waited for a person, once the run that went on from there has left one of
 * its own: the last checkpoint of a chain of runs is the one that later turns and forks stand on. Goes before the purge,
 * which marks the runs that need not be looked at again.
 */
export async function pruneCheckpoints(
  store: RunStore,
  retentionHours: number,
  forget: (sessionId: string, checkpoint: string) => Promise<void>,
): Promise<void> {
  await new Pace(store.dialect).through(async (most) => {
    const runs = await store.db
      .selectFrom('kernel_runs')
      .select(['id', 'session_id', 'checkpoint'])
      .where(sql<boolean>`purged = 0`)
      .where('checkpoint', 'is not', null)
      .where('status', 'not in', ['queued', 'running', 'waiting'])
      .where('ended_at', '<', sql<number>`${store.now} - ${Math.round(retentionHours * hourMs)}`)
      .where(
        sql<boolean>`exists (select 1 from kernel_runs as later
          where later.session_id = kernel_runs.session_id and later.root_id = kernel_runs.root_id
          and later.turn > kernel_runs.turn and later.checkpoint is not null)`,
      )
      .where(
        sql<boolean>`not exists (select 1 from kernel_runs as open
          where open.root_id = kernel_runs.root_id
          and ${isOpenIn(sql.ref('kernel_runs.session_id'), 'open')})`,
      )
      .limit(most)
      .execute()
    for (const { id, session_id, checkpoint } of runs) {
      if (checkpoint !== null) await forget(session_id, checkpoint)
      await store.commits.single((db) =>
        db.updateTable('kernel_runs').set({ checkpoint: null }).where('id', '=', id).execute(),
      )
    }
    return runs.length
  })
}

/**
 * Deletes what only the replay of old runs needs: their events, requests, effects, results and answers. The
 * transcript stays, and so does the run's own row, by which a late reader learns that it is gone.
 */
export async function purgeRuns(store: RunStore, retentionHours: number): Promise<number> {
  const purged = await new Pace(store.dialect).through((most) =>
    store.commits.atomic(async (db) => {
      const runs = await db
        .selectFrom('kernel_runs')
        .select('id')
        .where(sql<boolean>`purged = 0`)
        .where('status', 'not in', ['queued', 'running', 'waiting'])
        .where('ended_at', '<', sql<number>`${store.now} - ${Math.round(retentionHours * hourMs)}`)
        // An approval may take longer than any retention, and the whole chain is needed to go on.
        .where(
          sql<boolean>`not exists (select 1 from kernel_runs as open
            where open.root_id = kernel_runs.root_id
            and ${isOpenIn(sql.ref('kernel_runs.session_id'), 'open')})`,
        )
        // What is told of an end is read from these rows.
        .where(
          sql<boolean>`not exists (select 1 from kernel_unsettled as unsettled
            where unsettled.session_id = kernel_runs.session_id
            and unsettled.root_id = kernel_runs.root_id)`,
        )
        .orderBy('ended_at')
        .limit(most)
        .execute()
      for (const ids of slices(runs.map(({ id }) => id))) {
        await db.deleteFrom('kernel_run_events').where('run_id', 'in', ids).execute()
        await db.deleteFrom('kernel_run_requests').where('run_id', 'in', ids).execute()
        await db.deleteFrom('kernel_client_answers').where('run_id', 'in', ids).execute()
        await db.deleteFrom('kernel_quarantine').where('run_id', 'in', ids).execute()
        for (const table of ['kernel_effects', 'kernel_results'])
          await sql`delete from ${sql.table(table)} where (session_id, root_id) in
            (select session_id, root_id from kernel_runs where id in (${sql.join(ids)}))`.execute(
            db,
          )
        await db.updateTable('kernel_runs').set({ purged: 1 }).where('id', 'in', ids).execute()
      }
      return runs.length
    }),
  )
  await store.commits.single((db) =>
    db.deleteFrom('kernel_early_stops').where('until', '<', store.now).execute(),
  )
  // A count of an hour ago counts for nothing; its user may never be told anything again.
  await store.commits.single((db) =>
    db
      .deleteFrom('kernel_said_counts')
      .where('since', '<', sql<number>`${store.now} - ${hourMs}`)
      .execute(),
  )
  // The day before stays, because a transaction that began before midnight may still count for it.
  await store.commits.single((db) =>
    db
      .deleteFrom('kernel_turn_counts')
      .where('day', '<', sql<number>`${store.today} - 1`)
      .execute(),
  )
  return purged
}
