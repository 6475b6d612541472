import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { RuntimeError } from '../../errors.ts'
import { answerRaw } from '../http/raw-answer.ts'
import { maxFrameBytes } from './limits.ts'

/** How long a client may take to answer that its socket is closed. */
const closeMs = 1_000

export interface SocketServer {
  /** The socket; undefined when the handshake was none, which has been answered, or the client is gone. */
  accept(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<WebSocket | undefined>
}

/** Speaks WebSocket. Nothing is compressed: a small frame could be a large message. */
export function createSocketServer(): SocketServer {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    maxFragments: 1024,
    maxBufferedChunks: 4096,
    // Answers to pings are counted like everything else.
    autoPong: false,
    closeTimeout: closeMs,
  } as ConstructorParameters<typeof WebSocketServer>[0]) // its types are older than some of these
  const refused = Symbol('refused')
  server.on('wsClientError', (_, socket, req) => {
    answerRaw(
      socket,
      new RuntimeError('BAD_REQUEST', 'This is no WebSocket handshake of version 13.', {
        headers: { 'Sec-WebSocket-Version': '13' },
      }),
    )
    socket.emit(refused, req)
  })
  return {
    accept: (req, socket, head) =>
      new Promise((resolve) => {
        const none = () => resolve(undefined)
        if (socket.destroyed) return none()
        socket.once('close', none).once(refused, none)
        server.handleUpgrade(req, socket, head, (ws) => {
          socket.off('close', none).off(refused, none)
          resolve(ws)
        })
      }),
  }
}
