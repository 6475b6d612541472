import { RuntimeError } from '../../../errors.ts'
import { mostWaiting } from '../journal/begin.ts'
import type { RunRow } from '../journal/store.ts'

/** Whether the run goes on, or is about to. */
export const isStillOpen = ({ status }: Pick<RunRow, 'status'>): boolean =>
  status === 'queued' || status === 'running'

/** The error of a closing server, which takes nothing new any more. */
export const closing = () =>
  new RuntimeError('UNAVAILABLE', 'The server is closing.', {
    hint: 'Send the request again: another server takes it, or this server when it is back.',
  })

/** The error for a turn that was not to wait while another is under way. */
export const sessionBusy = (sessionId: string) =>
  new RuntimeError(
    'SESSION_BUSY',
    `A turn is under way in session "${sessionId}", or a person is asked there.`,
    { hint: 'Try again when the turn has ended, or start the turn with whenBusy: "wait".' },
  )

/** The error for a turn that is one too many to wait. */
export const queueFull = (sessionId: string) =>
  new RuntimeError(
    'QUEUE_FULL',
    `${mostWaiting} turns wait in session "${sessionId}", which is as many as may.`,
    { hint: 'Try again when some of them have begun.' },
  )

/** The error for a message that waits already, as a turn that a plugin started. */
export const waitsAlready = (requestId: string) =>
  new RuntimeError(
    'SESSION_BUSY',
    `The turn "${requestId}" waits until its session is free; it begins by itself.`,
    { hint: 'GET /sessions/:id/run says how many turns wait.' },
  )

/** The error for a name that the user gave to other words. */
export const requestIdReused = (requestId: string) =>
  new RuntimeError(
    'REQUEST_ID_REUSED',
    `You have a turn "${requestId}" already, with other words.`,
    { hint: 'Give each message a requestId of its own.' },
  )

/** The error for a run that ended so long ago that its events were deleted. */
export const gone = (runId: string) =>
  new RuntimeError('GONE', `The events of run "${runId}" are not kept any more.`, {
    hint: 'GET /messages/:sessionId has the conversation.',
  })

/** The error for an answer to a run that asks nothing. */
export function notWaiting({ id, status }: Pick<RunRow, 'id' | 'status'>): RuntimeError {
  const why =
    status === 'continued'
      ? 'it was answered already'
      : isStillOpen({ status })
        ? 'it is still running'
        : `it is ${status}`
  return new RuntimeError('CONFLICT', `Run "${id}" does not wait for an answer: ${why}.`)
}

/** The error for a session that others are to read and that stands in no room. */
export const sharedWithoutRoom = () =>
  new RuntimeError('INPUT_INVALID', 'A session without a room cannot be shared.', {
    hint: 'Name the room in which others read along.',
  })

/** The error for a session whose readers are not those that are wished for. */
export const otherReaders = (id: string) =>
  new RuntimeError('CONFLICT', `Session "${id}" was begun for other readers.`, {
    hint: 'A session is shared, or is not, for as long as it is there: name another session.',
  })
