import { fieldsIn } from '../base/fields.ts'
import type { Framing, ClientFrame } from './framing.ts'
import {
  readToolAnswer,
  readApprovals,
  readFrame,
  readSessionId,
  readTokens,
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
  if (typeof frame !== 'object' || frame === null) return { kind: 'broken' }
  const { type, sessionId, auth } = fieldsIn(frame)
  switch (type) {
    case 'auth': {
      const approvals = readApprovals(frame)
      if (approvals === null) return { kind: 'broken' }
      const tokens = readTokens(auth)
      return { kind: 'auth', sessionId: readSessionId(sessionId), tokens, approvals }
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
