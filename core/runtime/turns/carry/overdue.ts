import { sql } from 'kysely'
import type { Notices } from '../../notices/notices.ts'
import { type ClosedRunHearers, tellClosed } from '../events/closed.ts'
import { isWaiting } from '../indexes/open-runs.ts'
import { closeWaiting } from '../journal/stop.ts'
import { unanswered } from '../journal/steps.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import { takeSession } from '../journal/take-session.ts'
import type { WaitingTurns } from '../waiting/waiting-turns.ts'

/** What hears of the runs that end because nobody decided. */
export interface OverdueParts extends ClosedRunHearers {
  readonly store: RunStore
  readonly waiting: WaitingTurns
  readonly notices: Notices | undefined
  /** The plugin of a tool. */
  pluginOf(tool: string): string | undefined
}

const dayMs = 86_400_000
/** What the model reads of a call about which nobody decided. */
const overdueWords = 'Nobody approved this in time, so it was not done.'

/**
 * Ends runs that have waited too many days for a person, at most so many of them; resolves to how many there were. The
 * transaction that ends a run makes the notice, so its user has one, and has it also after a crash.
 */
export async function endOverdue(parts: OverdueParts, days: number, most: number): Promise<number> {
  const { store, waiting } = parts
  const runs = await store.db
    .selectFrom('kernel_runs')
    .selectAll()
    .where(isWaiting)
    .where('ended_at', '<', sql<number>`${store.now} - ${sql.lit(days * dayMs)}`)
    .limit(most)
    .execute()
  for (const run of runs) {
    const closed = await store.commits.atomic((trx) => end(parts, trx, run, days))
    if (closed.length === 0) continue
    tellClosed(parts, closed)
    parts.notices?.tell(run.did, 'run', {
      ...{ runId: run.id, sessionId: run.session_id, state: 'ended', status: 'interrupted' },
    })
  }
  if (runs.length > 0) waiting.nudge()
  return runs.length
}

/** Ends one run, unless its user was quicker. Resolves to what has ended. */
async function end(
  { store, notices, pluginOf }: OverdueParts,
  trx: RunStore['db'],
  run: RunRow,
  days: number,
): Promise<RunRow[]> {
  // Whoever decides now takes the session's row, too.
  if (!(await takeSession(trx, run.session_id))) return []
  const calls = unanswered(await store.stepsOf(run, trx))
  const closed = await closeWaiting(store, trx, [run.id], {
    ...{ status: 'interrupted', cause: 'expired', words: overdueWords },
  })
  if (closed.length === 0) return closed
  const plugin = calls.map(({ name }) => pluginOf(name)).find((name) => name !== undefined)
  const session = await trx
    .selectFrom('kernel_sessions')
    .select('title')
    .where('id', '=', run.session_id)
    .executeTakeFirst()
  await notices?.add(trx, {
    did: run.did,
    kind: 'failed',
    plugin: plugin ?? 'kernel',
    title: session?.title ?? plugin ?? 'kernel',
    text: `Nobody decided within ${days} ${days === 1 ? 'day' : 'days'}, so this was not done.`,
    sessionId: run.session_id,
    runId: run.id,
    key: `run:${run.id}:overdue`,
  })
  return closed
}
