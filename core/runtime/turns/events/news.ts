import { sql } from 'kysely'
import type { NoticeKind, RunCause } from '../../../plugin.ts'
import type { Telling } from '../../store/channels/channels.ts'
import type { Notices } from '../../notices/notices.ts'
import type { Hint } from '../../notices/words.ts'
import type { NoticeDatabase } from '../../notices/tables.ts'
import type { RunRow } from '../journal/store.ts'
import type { RunStatus, Stop } from '../journal/tables.ts'
import type { RunEnd, TurnRequest } from '../run.ts'

/** A run that is carried here. */
interface RunInTheNews {
  readonly row: Pick<RunRow, 'id' | 'session_id' | 'did' | 'turn'>
  readonly request: Pick<TurnRequest, 'origin' | 'from'>
}

/** Tells users of their runs in all their sessions: hints of every run, and notices of the turns that plugins began. */
export class RunNews {
  readonly #notices: Notices

  constructor(notices: Notices) {
    this.#notices = notices
  }

  /** A run has begun here. */
  began({ row, request }: RunInTheNews): void {
    for (const { event, data } of ofBeginning(row, request, row.turn === 1))
      this.#notices.tell(row.did, event, data)
  }

  /**
   * The same as a part of the statement that records the run, once for the first run of a session and once for any other; undefined
   * where somebody has to call `began` afterwards.
   */
  begunBy(
    row: Pick<RunRow, 'id' | 'session_id' | 'did'>,
    request: RunInTheNews['request'],
  ): { readonly first: Telling; readonly later: Telling } | undefined {
    const first = this.#notices.telling(row.did, ofBeginning(row, request, true))
    const later = this.#notices.telling(row.did, ofBeginning(row, request, false))
    return first && later && { first, later }
  }

  /** A run has ended here, or waits for a person. */
  ended(run: RunInTheNews, status: RunStatus): void {
    const { event, data } = ofEnd(run, status)
    this.#notices.tell(run.row.did, event, data)
  }

  /** The same as a part of the statement that writes the end; undefined where somebody has to call `ended` afterwards. */
  endedBy(run: RunInTheNews, status: RunStatus): Telling | undefined {
    return this.#notices.telling(run.row.did, [ofEnd(run, status)])
  }

  /**
   * The same end, which also makes the notice of a turn that a plugin began. The transaction that ends the run
   * makes the notice, so a run that was taken over has one notice too. Where the words were the user's own, the plugin brings
   * the answer to where the user said them, so there is a notice only when a decision is needed.
   */
  withNotice({ row, request }: RunInTheNews, end: RunEnd): RunEnd {
    const { origin } = request
    if (origin === undefined) return end
    return {
      ...end,
      inserts: undefined,
      save: async (trx) => {
        await end.save?.(trx)
        await this.#add(trx, row, origin, request.from)
      },
    }
  }

  async #add(
    trx: NoticeDatabase,
    { id, did, session_id: sessionId }: RunInTheNews['row'],
    plugin: string,
    from: TurnRequest['from'],
  ): Promise<void> {
    // The row has the status: a stop may have come after the engine had ended.
    const { rows } = await sql<EndedRun & { title: string | null }>`
      select run.status, run.stop, run.cause, session.title from kernel_runs as run
      join kernel_sessions as session on session.id = run.session_id where run.id = ${id}`.execute(
      trx,
    )
    const [run] = rows
    const kind = run && kindOf(run)
    if (kind === undefined || (kind !== 'asks' && from !== 'plugin')) return
    await this.#notices.add(trx, {
      did,
      kind,
      plugin,
      title: run?.title ?? plugin,
      text: sentences[kind],
      sessionId,
      runId: id,
      key: `run:${id}`,
    })
  }
}

function ofBeginning(
  { id: runId, session_id: sessionId }: Pick<RunRow, 'id' | 'session_id'>,
  { origin }: RunInTheNews['request'],
  isFirst: boolean,
): Hint[] {
  const began: Hint = { event: 'run', data: { runId, sessionId, state: 'began', plugin: origin } }
  // The first words of a session give it its title.
  const renamed: Hint = { event: 'session', data: { sessionId, change: 'renamed' } }
  return isFirst ? [renamed, began] : [began]
}

function ofEnd({ row, request }: RunInTheNews, status: RunStatus): Hint {
  const state = status === 'waiting' ? 'waits' : 'ended'
  const data = { runId: row.id, sessionId: row.session_id, state, status, plugin: request.origin }
  return { event: 'run', data }
}

/** What a run's row says of its end. */
interface EndedRun {
  readonly status: RunStatus
  readonly stop: Stop | null
  readonly cause: RunCause | null
}

/** What a notice says of the end; undefined for a run that the user or a newer message ended. */
function kindOf({ status, stop, cause }: EndedRun): 'ended' | 'failed' | 'asks' | undefined {
  if (status === 'finished') return 'ended'
  if (status === 'waiting') return 'asks'
  const isLost = status === 'interrupted' && (stop === null || cause === 'expired')
  return status === 'failed' || isLost ? 'failed' : undefined
}

const sentences = {
  ended: 'There is an answer.',
  failed: 'The answer failed.',
  asks: 'Your decision is needed before this goes on.',
} as const satisfies Partial<Record<NoticeKind, string>>
