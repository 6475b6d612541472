import { RuntimeError } from '../../../errors.ts'
import type { RunRow } from '../journal/store.ts'

/** Whether the run goes on, or is about to. */
export const isOpen = ({ status }: Pick<RunRow, 'status'>): boolean =>
  status === 'queued' || status === 'running'

/** The server takes nothing new any more. */
export const closing = () =>
  new RuntimeError('UNAVAILABLE', 'The server is closing.', {
    hint: 'Send it again: another server takes it, or this one when it is back.',
  })

/** The run has ended so long ago that its events were deleted. */
export const gone = (runId: string) =>
  new RuntimeError('GONE', `The events of run "${runId}" are not kept any more.`, {
    hint: 'GET /messages/:sessionId has the conversation.',
  })

/** Somebody answers a run that asks nothing. */
export function notWaiting({ id, status }: Pick<RunRow, 'id' | 'status'>): RuntimeError {
  const why =
    status === 'continued'
      ? 'it was answered already'
      : isOpen({ status })
        ? 'it is still running'
        : `it is ${status}`
  return new RuntimeError('CONFLICT', `Run "${id}" does not wait for an answer: ${why}.`)
}
