import type { ReadMessages, SessionMessages } from '../../../plugin.ts'
import { readMessagesOf } from '../new-turn.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { HistoryMessage } from './history-line.ts'
import { isComponent, type Transcripts } from './transcript.ts'

/** Reads messages of a session for a plugin, as their user reads them. */
export async function readMessages(
  plugin: string,
  { sessions, transcripts }: { readonly sessions: Sessions; readonly transcripts: Transcripts },
  read: ReadMessages,
): Promise<SessionMessages> {
  const { user, session, limit, before } = readMessagesOf(plugin, read)
  await sessions.demand(user.did, session)
  const { messages, prevCursor } = await transcripts.page(session, { limit, before })
  return { messages: messages.map(toldMessage), prevCursor }
}

const toldMessage = ({ toolCalls, ...message }: HistoryMessage) => ({
  ...message,
  ...(toolCalls && {
    toolCalls: toolCalls.map((call) => ({
      ...call,
      ...(isComponent(call) && { isComponent: true as const }),
    })),
  }),
})
