import { randomUUID } from 'node:crypto'
import type { Framing, ClientFrame } from './framing.ts'
import { channelLimits, maxFrameBytes } from './limits.ts'
import {
  readToolAnswer,
  readApprovals,
  readFrame,
  readSessionId,
  readTokens,
} from './read-frame.ts'

/** Events that go out under their own names: the published client carries them out. */
const flat = new Set(['browser_tool_call', 'action_call'])
/**
 * Events that the client has from the stream of the run. From the socket too, the client would draw each as a bubble of
 * its own, or once more.
 */
const ofTheStream = new Set(['run', 'message', 'reasoning', 'progress', 'error'])

/**
 * Makes the published client read the history. The client ignores an event that has not both keys, and takes one of its
 * own session for an answer on its way: it would show "Thinking..." until a reload. So both keys are null.
 */
const invalidation =
  '42["event",{"eventName":"message_cache_invalidation","payload":{"sessionId":null,"requestId":null}}]'

/** The framing of Socket.IO 4 over WebSocket alone: as much of it as its clients need. */
export const socketIo: Framing = {
  name: 'socket.io',
  renews: false,
  ping: '2',
  greeting: () =>
    `0${JSON.stringify({
      sid: randomUUID(),
      upgrades: [],
      pingInterval: channelLimits.pingMs,
      pingTimeout: channelLimits.pongMs,
      maxPayload: maxFrameBytes,
    })}`,
  read,
  connected(sessionId) {
    const message = 'Connected to the session.'
    const timestamp = new Date().toISOString()
    return [
      `40${JSON.stringify({ sid: randomUUID() })}`,
      `42${JSON.stringify(['connected', { message, sessionId, timestamp }])}`,
    ]
  },
  event({ name, payload, asks, isArriving }) {
    // The client draws an action once it is called; drawn before as well, the action would stand there twice.
    if (ofTheStream.has(name) || isArriving) return undefined
    // A tab that did not begin the run has no stream of it: this makes the tab read the history.
    if (name === 'done' || name === 'message_cache_invalidation') return invalidation
    if (!flat.has(name))
      return `42["event",{"eventName":${JSON.stringify(name)},"payload":${payload}}]`
    // The client carries out whatever comes under these names, also the news that a call is done.
    return asks === undefined ? undefined : `42[${JSON.stringify(name)},${payload}]`
  },
  refused: ({ code, message, status }) =>
    `44${JSON.stringify({ message, data: { code, statusCode: status } })}`,
  acknowledged: (ack, accepted) => `43${ack}${JSON.stringify([{ accepted }])}`,
}

function read(text: string): ClientFrame {
  switch (text[0]) {
    case '1':
      return { kind: 'leave' }
    case '2':
      return { kind: 'ping', pong: `3${text.slice(1, 100)}` }
    case '3':
    case '5':
    case '6':
      return { kind: 'nothing' }
    case '4':
      return readPacket(text)
    default:
      return { kind: 'broken' }
  }
}

/** Type, attachments of a binary event, namespace, the number of an acknowledgement, JSON. */
const packet = /^4([0-6])(?:(\d{1,3})-)?(?:(\/[^,]{0,200}),)?(\d{1,9})?/

function readPacket(text: string): ClientFrame {
  const [head, type, attachments, namespace, ack] = packet.exec(text) ?? []
  if (head === undefined) return { kind: 'broken' }
  if (namespace !== undefined && namespace !== '/')
    return type === '0'
      ? { kind: 'refused', reply: `44${namespace},{"message":"Invalid namespace"}` }
      : { kind: 'nothing' }
  if (type === '1') return { kind: 'leave' }
  if (type !== '0' && type !== '2' && type !== '5') return { kind: 'nothing' }
  const json = text.slice(head.length)
  const value = json === '' ? undefined : readFrame(json)
  if (type === '0') return readAuth(value ?? {})
  if (!Array.isArray(value)) return { kind: 'broken' }
  const [name, data]: unknown[] = value
  if (name === 'auth') return readAuth(data)
  if (name !== 'tool_result' && name !== 'action_call_result') return { kind: 'nothing' }
  const answer = readToolAnswer(data)
  if (!answer) return { kind: 'nothing' }
  if (attachments === undefined) return { kind: 'answer', answer, ack }
  const error = 'The result holds binary data, which a model cannot read.'
  return { kind: 'answer', answer: { ...answer, result: undefined, error }, ack }
}

function readAuth(value: unknown): ClientFrame {
  const approvals = readApprovals(value)
  if (approvals === null) return { kind: 'broken' }
  return { kind: 'auth', tokens: readTokens(value), approvals }
}

/** The session that a client names in its address. The channel reads nothing else of the query. */
export function sessionOf(query: string): string | undefined {
  return readSessionId(new URLSearchParams(query).get('sessionId'))
}
