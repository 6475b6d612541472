import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { RuntimeError } from '../../errors.ts'
import { answerRaw } from '../http/answer/raw-answer.ts'
import { maxFrameBytes } from './limits.ts'

/** How long a client may take to answer that its socket is closed. */
const closeMs = 1_000

/** Speaks WebSocket. The server compresses nothing: a small frame could be a large message. */
export class SocketServer {
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    maxFragments: 1024,
    maxBufferedChunks: 4096,
    // `Peer` answers pings itself and counts them like every frame.
    autoPong: false,
    closeTimeout: closeMs,
  } as ConstructorParameters<typeof WebSocketServer>[0]) // ws's types are older than some of these

  constructor() {
    this.#server.on('wsClientError', (_, socket) =>
      answerRaw(
        socket,
        new RuntimeError('BAD_REQUEST', 'This is no WebSocket handshake of version 13.', {
          headers: { 'Sec-WebSocket-Version': '13' },
        }),
      ),
    )
  }

  /**
   * Hands the socket to `take` in the very tick in which it opens: frames that came with the handshake are read in the
   * next. A handshake that is none gets its answer here, and `take` is not called.
   */
  accept(req: IncomingMessage, socket: Duplex, head: Buffer, take: (ws: WebSocket) => void): void {
    this.#server.handleUpgrade(req, socket, head, take)
  }
}
