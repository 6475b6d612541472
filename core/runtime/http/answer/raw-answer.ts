import { randomUUID } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { RuntimeError } from '../../../errors.ts'
import { errorText, statusOf } from './error-body.ts'
import { jsonType } from './answer.ts'
import { nodeHttp } from '../../base/node-http.ts'

const lingerMs = 500

/**
 * Answers on a socket that has no response object: for bytes that are no request, or an upgrade that nobody takes. Closes
 * the socket a moment later, so that the client reads the answer.
 */
export function answerRaw(
  socket: Duplex,
  error: RuntimeError,
  requestId: string = randomUUID(),
): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const body = errorText(error, requestId)
  const status = statusOf(error)
  const head = [
    `HTTP/1.1 ${status} ${nodeHttp.STATUS_CODES[status] ?? ''}`,
    `Content-Type: ${jsonType}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    'X-Content-Type-Options: nosniff',
    ...Object.entries(error.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ]
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.on('error', () => socket.destroy()).once('close', () => clearTimeout(timer))
  // `resume` throws away what still arrives: unread bytes would reset the connection under the answer.
  socket.resume()
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

/** The error for what Node's HTTP parser refused. Undefined when the client is gone. */
export function parserError(error: NodeJS.ErrnoException): RuntimeError | undefined {
  switch (error.code) {
    case 'ECONNRESET':
    case 'EPIPE':
      return undefined
    case 'HPE_HEADER_OVERFLOW':
      return new RuntimeError('HEADERS_TOO_LARGE', 'The request headers are larger than 16 KiB.')
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new RuntimeError('BODY_TOO_LARGE', 'The chunk extensions are larger than 16 KiB.')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new RuntimeError('REQUEST_TIMEOUT', 'The request did not arrive in time.')
    default:
      return new RuntimeError('BAD_REQUEST', 'This is not HTTP as RFC 9112 writes it.', {
        cause: error,
      })
  }
}
