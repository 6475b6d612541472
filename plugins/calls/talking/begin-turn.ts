import type { Turns } from '#core'
import type { ConversationOptions } from './options.ts'

/** What is known of a turn once it has begun, or waits. */
export type TakenWords = Awaited<ReturnType<Turns['start']>['begun']>

/** The name of the turn that something said becomes: known before there is a run. */
export const turnNameOf = ({ call }: Pick<ConversationOptions, 'call'>, name: string): string =>
  `${call.id}:${name}`.slice(0, 200)

/** What was said in a call becomes a turn of its session. Resolves once the turn has begun; its events are followed. */
export async function beginTurn(
  { turns, call, hearingName }: ConversationOptions,
  message: string,
  requestId: string,
): Promise<TakenWords> {
  const { id, did, sessionId, type, language } = call
  const turn = turns.start({
    user: { did },
    delegation: 'stored',
    session: sessionId,
    message,
    metadata: { call: { id, type, by: hearingName, ...(language && { language }) } },
    approvals: 'events',
    requestId,
  })
  turn.ended.catch(() => undefined)
  return turn.begun
}
