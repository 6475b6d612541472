import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { faultsOf, faultText } from '../../manifest/faults.ts'
import type { Database } from '../../plugin.ts'
import { waitingCall } from '../turns/journal/stop.ts'
import type { RunRow } from '../turns/journal/store.ts'
import { withRunTables } from '../turns/journal/tables.ts'
import type { Decision } from '../turns/run.ts'
import { gone } from '../turns/sessions/refusals.ts'
import type { Tools } from './tools/tools.ts'

/** How long a run waits for what a client makes of the calls of its own tools. */
const parkedMs = 24 * 3_600_000

/**
 * Refuses an answer to another question, and edited arguments that the waiting call's tool cannot take, before anything of the
 * decision is recorded.
 */
export async function checkAnswer(
  db: Database,
  tools: Pick<Tools, 'entry'>,
  run: Pick<RunRow, 'id' | 'session_id' | 'root_id' | 'ended_at'>,
  { decision, args }: Decision,
): Promise<void> {
  const waits = await waitingCall(withRunTables(db), run)
  const isOfClient = waits?.kind === 'client'
  if (waits && isOfClient !== (decision === 'results')) throw otherAnswer(isOfClient)
  if (isOfClient && Number(run.ended_at) < Date.now() - parkedMs) throw gone(run.id)
  if (decision !== 'edit') return
  const entry = waits && tools.entry(waits.toolName)
  // A tool that one turn alone has is known to that turn: it checks the arguments when it goes on.
  if (!waits || !entry) return
  const parsed = await z.safeParseAsync(entry.input, args)
  if (parsed.success) return
  const faults = faultsOf(parsed.error)
  const details = faults.map(({ path, message }) => ({
    path: path === '' ? 'args' : `args.${path}`,
    message,
  }))
  throw new RuntimeError(
    'INVALID_INPUT',
    `The edited arguments of "${waits.toolName}" do not fit: ${faultText(faults)}`,
    { hint: 'Correct the arguments and answer again: the call still waits.', details },
  )
}

const otherAnswer = (isOfClient: boolean) =>
  isOfClient
    ? new RuntimeError(
        'CONFLICT',
        'The run waits for results of its client, and for no decision.',
        {
          hint: 'The client that brought the tools hands in what it made of the calls.',
        },
      )
    : new RuntimeError(
        'CONFLICT',
        'The run waits for a decision, and for no results of a client.',
        {
          hint: 'Ask the person to approve or to reject the call.',
        },
      )
