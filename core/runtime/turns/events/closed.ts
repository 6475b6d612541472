import type { RunRow } from '../journal/store.ts'
import type { Watchers } from './watchers.ts'

/** Who hears of runs that waited for a person and ended without a decision. */
export interface ClosedRunHearers {
  readonly settler: { nudge(): void }
  readonly watchers: Pick<Watchers, 'closed'>
  /** The other processes. */
  readonly replicas: { tell(sessionId: string, word: 'ended', ...facts: readonly string[]): void }
}

/** Tells that runs waited for a person and ended without a decision: no process carries them that would tell it. */
export function tellClosed(hearers: ClosedRunHearers, rows: readonly RunRow[]): void {
  const { settler, watchers, replicas } = hearers
  settler.nudge()
  for (const row of rows) {
    const { id: runId, session_id: sessionId, request_id: requestId } = row
    const status = row.status === 'aborted' ? row.status : 'interrupted'
    watchers.closed(sessionId, { runId, requestId, status })
    replicas.tell(sessionId, 'ended', sessionId, runId, requestId, status)
  }
}
