import type { Headers } from '../http2/hpack.ts'
import { type Closed, ProtocolError } from '../http2/stream.ts'
import { CallError, grpc } from '../statuses.ts'

const retryAfter = { 'Retry-After': '1' }

/** The error for an upstream that cannot be reached, which clients may retry. */
export function lost(cause: unknown): CallError {
  return new CallError(grpc.unavailable, 'The upstream cannot be reached.', {
    headers: retryAfter,
    cause,
  })
}

/** The error for an upstream that is no gRPC server. */
export function noGrpc(cause?: unknown): CallError {
  return new CallError(grpc.unavailable, 'The upstream did not answer as a gRPC server does.', {
    status: 502,
    cause,
  })
}

/** The error for a stream that closed without a gRPC status. */
export function failureOf(how: Closed): CallError {
  if (how.kind === 'ended') return noGrpc()
  if (how.kind !== 'lost') return lost(new Error(`the stream closed: ${JSON.stringify(how)}`))
  return how.cause === undefined && !how.spoke ? noGrpc() : brokenBy(how.cause)
}

/** The error for a broken connection. An upstream that speaks no HTTP/2 or TLS is the wrong one; otherwise the upstream is away. */
function brokenBy(cause: Error | undefined): CallError {
  const { code = '', message = '' } = (cause ?? {}) as Partial<NodeJS.ErrnoException>
  const wrong =
    cause instanceof ProtocolError ||
    code === 'EPROTO' ||
    // A server without TLS closes the connection at TLS's first message; Node reports that only by these words.
    message.includes('before secure TLS connection') ||
    /^(ERR_SSL|ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(code)
  return wrong ? noGrpc(cause) : lost(cause)
}

/** The failure that the trailers name; undefined for OK. */
export function statusOf(trailers: Headers): CallError | undefined {
  const text = String(trailers['grpc-status'])
  if (!/^\d{1,9}$/.test(text)) return noGrpc()
  const code = Number(text)
  if (code === 0) return undefined
  const details = trailers['grpc-status-details-bin']
  return new CallError(code, percentDecoded(String(trailers['grpc-message'] ?? '')), {
    ...(typeof details === 'string' ? { statusDetails: Buffer.from(details, 'base64') } : {}),
    ...(code === grpc.unavailable ? { headers: retryAfter } : {}),
  })
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // The gRPC specification asks clients to show a badly encoded message unchanged.
    return text
  }
}
