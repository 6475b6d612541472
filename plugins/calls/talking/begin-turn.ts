import type { ConversationOptions } from './options.ts'

/** What was said in a call becomes a turn of its session. Resolves once the turn has begun; its events are followed. */
export async function beginTurn(
  { turns, call, hearingName }: ConversationOptions,
  message: string,
  name: string,
): Promise<void> {
  const { id, did, sessionId, type, language } = call
  const turn = turns.start({
    user: { did },
    delegation: 'stored',
    session: sessionId,
    message,
    metadata: { call: { id, type, by: hearingName, ...(language && { language }) } },
    approvals: 'events',
    requestId: `${id}:${name}`.slice(0, 200),
  })
  turn.ended.catch(() => undefined)
  await turn.begun
}
