import { sql } from 'kysely'
import type { Log } from '../../../plugin.ts'
import type { RunStore } from '../journal/store.ts'
import { timedId } from '../../base/clock.ts'

/** How long after its last use a session stays that was made for one turn: a client may ask for the answer once more. */
const keptMs = 3_600_000
/** The same while its run waits for a person or a client. */
const waitingMs = 24 * 3_600_000
/** How many are deleted in one go. */
const mostAtOnce = 500

/** Makes a session for one turn. */
export async function makeEphemeral(
  { db, now }: Pick<RunStore, 'db' | 'now'>,
  did: string,
  plugin: string,
): Promise<string> {
  const id = timedId()
  await db
    .insertInto('kernel_sessions')
    .values({ id, did, plugin, created_at: now, updated_at: now, turns: 0, ephemeral: 1 })
    .execute()
  return id
}

/** Deletes the sessions of single turns that nobody needs any more. */
export async function endEphemeral(
  store: Pick<RunStore, 'db' | 'now'>,
  log: Log,
  remove: (did: string, id: string) => Promise<void>,
): Promise<void> {
  for (const { id, did } of await over(store))
    await remove(did, id).catch((err: unknown) =>
      log.warn({ err, sessionId: id }, 'The session of one turn could not be deleted'),
    )
}

async function over({
  db,
  now,
}: Pick<RunStore, 'db' | 'now'>): Promise<
  readonly { readonly id: string; readonly did: string }[]
> {
  return db
    .selectFrom('kernel_sessions')
    .select(['id', 'did'])
    .where('ephemeral', '=', 1)
    .where('updated_at', '<', sql<number>`${now} - ${sql.lit(keptMs)}`)
    .where(
      sql<boolean>`not exists (select 1 from kernel_runs where session_id = kernel_sessions.id
        and (status in ('queued', 'running')
          or (status = 'waiting' and ended_at > ${now} - ${sql.lit(waitingMs)})
          or ended_at > ${now} - ${sql.lit(keptMs)}))`,
    )
    .limit(mostAtOnce)
    .execute()
}
