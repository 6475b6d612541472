import { RuntimeError } from '#core'
import { type CallRows, dayMs, type NewCall } from './rows.ts'
import { invalid } from './signalling/sdp.ts'

/** No line is free, or none can be answered just now. */
export const full = (what: string, seconds: number, cause?: unknown): RuntimeError =>
  new RuntimeError('CALLS_FULL', what, {
    ...{ status: 503, cause, headers: { 'Retry-After': String(seconds) } },
    hint: 'Try again in a minute, or write.',
  })

/** The minutes of the day are spent. */
export const minutesSpent = (minutes: number, now: number): RuntimeError =>
  new RuntimeError('CALLS_MINUTES_SPENT', `The ${minutes} minutes of today are spent.`, {
    status: 429,
    hint: 'Call again after 00:00 UTC, or write.',
    headers: { 'Retry-After': String(Math.ceil((dayMs - (now % dayMs)) / 1_000)) },
  })

/** Why no place is free for one more call of a user: which call has it. */
export async function activeCall(
  rows: CallRows,
  { did, sessionId }: Pick<NewCall, 'did' | 'sessionId'>,
): Promise<RuntimeError> {
  const own = await rows.underWay(did)
  const here = own.find(({ session_id }) => session_id === sessionId)
  const { id } = here ?? own[0] ?? {}
  const said = here ? 'A call of this session is under way.' : 'A call of yours is under way.'
  return new RuntimeError('CALL_ACTIVE', said, {
    status: 409,
    hint: id
      ? `Go on there, or end it with DELETE /calls/${id}.`
      : 'It has just ended: call again.',
    ...(id && { details: { callId: id } }),
  })
}

/** Refuses a call whose kind is off here, or is another than its offer has. */
export function demandKind(callType: 'audio' | 'video', hasVideo: boolean, isOn: boolean): void {
  if (callType === 'video' && !isOn)
    throw new RuntimeError('CALLS_VIDEO_OFF', 'Calls have no picture here.', {
      status: 403,
      hint: 'Call with callType "audio".',
    })
  if (hasVideo === (callType === 'video')) return
  throw invalid(
    hasVideo
      ? 'it has a section of video, and the callType is "audio"'
      : 'the callType is "video", and it has no section of video',
  )
}
