import { fieldsIn } from '../base/fields.ts'
import type { Framing, ClientFrame } from './framing.ts'
import {
  readToolAnswer,
  readApprovals,
  readCursor,
  readFrame,
  readSessionId,
  readTokens,
  readUserWish,
} from './read-frame.ts'

/** Plain JSON, for any language: `{ type, … }` from the client, `{ eventName, payload }` from the server. */
export const plain: Framing = {
  name: 'plain',
  renews: true,
  read,
  connected: (sessionId) => [
    JSON.stringify({ type: 'connected', sessionId, timestamp: new Date().toISOString() }),
  ],
  event: ({ name, payload }) => `{"eventName":${JSON.stringify(name)},"payload":${payload}}`,
}

function read(text: string): ClientFrame {
  const frame = readFrame(text)
  if (typeof frame !== 'object' || frame === null || Array.isArray(frame)) return { kind: 'broken' }
  const { type, sessionId, auth } = fieldsIn(frame)
  switch (type) {
    case 'auth': {
      const approvals = readApprovals(frame)
      const user = readUserWish(frame)
      if (approvals === null || user === null) return { kind: 'broken' }
      const tokens = readTokens(auth)
      const session = readSessionId(sessionId)
      // A session whose name cannot be read is refused, also where the client wants more than that session.
      if (sessionId !== undefined && session === undefined) return { kind: 'auth', tokens }
      const cursor = readCursor(frame)
      return { kind: 'auth', sessionId: session, tokens, approvals, user, cursor }
    }
    case 'tool_result':
    case 'action_call_result': {
      const answer = readToolAnswer(frame)
      return answer ? { kind: 'answer', answer } : { kind: 'nothing' }
    }
    case 'ping':
      return { kind: 'ping', pong: '{"type":"pong"}' }
    default:
      return { kind: 'nothing' }
  }
}
