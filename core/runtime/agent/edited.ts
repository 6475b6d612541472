import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { faultsOf, faultText } from '../../manifest/faults.ts'
import type { Database } from '../../plugin.ts'
import { isNote, noteOf } from '../turns/journal/steps.ts'
import type { RunRow } from '../turns/journal/store.ts'
import { withRunTables } from '../turns/journal/tables.ts'
import type { Decision, WaitingCall } from '../turns/run.ts'
import type { Tools } from './tools/tools.ts'

/** How many of a run's newest notes are looked at for the call that waits. */
const mostNotes = 50

/** Refuses edited arguments that the waiting call's tool cannot take, before anything of the decision is recorded. */
export async function checkEdit(
  db: Database,
  tools: Pick<Tools, 'entry'>,
  run: Pick<RunRow, 'session_id' | 'root_id'>,
  { decision, args }: Decision,
): Promise<void> {
  if (decision !== 'edit') return
  const waits = await waitingCall(db, run)
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

async function waitingCall(
  db: Database,
  { session_id, root_id }: Pick<RunRow, 'session_id' | 'root_id'>,
): Promise<WaitingCall | undefined> {
  const rows = await withRunTables(db)
    .selectFrom('kernel_steps')
    .select(['kind', 'body'])
    .where('session_id', '=', session_id)
    .where('root_id', '=', root_id)
    .where('kind', '=', 'note')
    .orderBy('position', 'desc')
    .limit(mostNotes)
    .execute()
  for (const row of rows) {
    const { waits } = isNote(row) ? noteOf(row) : {}
    if (waits) return waits
  }
  return undefined
}
