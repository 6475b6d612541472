import { sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { ListedTurn, ListedTurns } from '../../../plugin.ts'
import { mostBehind } from '../events/session-events.ts'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase, RunStatus } from '../journal/tables.ts'

/**
 * The runs that whoever follows a session is told of first: the one that has yet to end or waits for a person; `since` a run, that
 * one and all that have begun after it.
 */
export async function runsToFollow(
  store: Pick<RunStore, 'db' | 'newestOpen'>,
  sessionId: string,
  since?: string,
): Promise<readonly string[]> {
  if (since !== undefined) {
    const first = store.db.selectFrom('kernel_runs').select('turn')
    const rows = await store.db
      .selectFrom('kernel_runs')
      .select('id')
      .where('session_id', '=', sessionId)
      .where('turn', '>=', first.where('id', '=', since).where('session_id', '=', sessionId))
      .orderBy('turn', 'desc')
      .limit(mostBehind)
      .execute()
    if (rows.length > 0) return rows.map(({ id }) => id).reverse()
  }
  const open = await store.newestOpen(sessionId)
  return open ? [open.id] : []
}

/** Which turns are listed, checked. */
export interface CheckedWant {
  readonly user: { readonly did: string }
  readonly session?: string
  readonly runId?: string
  readonly status?: readonly ListedTurn['status'][]
  readonly limit: number
  readonly before?: string
}

/** The turns of a user, the newest first: of each the last run, for those before it have gone on in it. */
export async function listTurns(
  db: RunDatabase,
  { user, session, runId, status, limit, before }: CheckedWant,
): Promise<ListedTurns> {
  let query = db
    .selectFrom('kernel_runs')
    .select(['id', 'root_id', 'session_id', 'request_id', 'status', 'created_at', 'ended_at'])
    .where('did', '=', user.did)
    .where('status', '<>', 'continued')
  if (session !== undefined) query = query.where('session_id', '=', session)
  if (status) query = query.where('status', 'in', [...status])
  if (runId !== undefined)
    query = query.where('root_id', '=', (named) =>
      named.selectFrom('kernel_runs').select('root_id').where('id', '=', runId),
    )
  if (before !== undefined) {
    const [at, id] = placeIn(before)
    query = query.where(sql<boolean>`(created_at < ${at} or (created_at = ${at} and id < ${id}))`)
  }
  const found = await query
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  return {
    turns: rows.flatMap((row) => {
      const { id: lastRunId, root_id, session_id, request_id, created_at, ended_at } = row
      if (!isListed(row.status)) return []
      return {
        ...{ runId: root_id, lastRunId, sessionId: session_id, requestId: request_id },
        status: row.status,
        startedAt: new Date(Number(created_at)),
        ...(ended_at !== null && { endedAt: new Date(Number(ended_at)) }),
      }
    }),
    next: found.length > limit && last ? `${Number(last.created_at)}:${last.id}` : null,
  }
}

const isListed = (status: RunStatus): status is ListedTurn['status'] => status !== 'continued'

function placeIn(cursor: string): [number, string] {
  const [, at, id] = /^(\d{1,16}):([\w-]{1,100})$/u.exec(cursor) ?? []
  if (at === undefined || id === undefined)
    throw new RuntimeError('BAD_REQUEST', 'That is not a cursor of a list of turns.', {
      hint: 'Give `next` of an earlier list as it stands.',
    })
  return [Number(at), id]
}
