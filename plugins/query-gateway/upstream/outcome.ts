import type { Headers } from '../http2/hpack.ts'
import { type Closed, ProtocolError } from '../http2/stream.ts'
import { CallError, grpc } from '../statuses.ts'

const retryAfter = { 'Retry-After': '1' }

/** The upstream is away: it may be asked again. */
export function lost(cause: unknown): CallError {
  return new CallError(grpc.unavailable, 'The upstream cannot be reached.', {
    headers: retryAfter,
    cause,
  })
}

/** What answers is no gRPC server. */
export function noGrpc(cause?: unknown): CallError {
  return new CallError(grpc.unavailable, 'The upstream did not answer as a gRPC server does.', {
    status: 502,
    cause,
  })
}

/** What a stream that closed without a status says about the upstream. */
export function failureOf(how: Closed): CallError {
  if (how.kind === 'ended') return noGrpc()
  if (how.kind !== 'lost') return lost(new Error(`the stream closed: ${JSON.stringify(how)}`))
  return how.cause === undefined && !how.spoke ? noGrpc() : brokenBy(how.cause)
}

/** A connection that spoke something other than HTTP/2 or TLS leads to a wrong upstream; any other means that the upstream is away. */
function brokenBy(cause: Error | undefined): CallError {
  const { code = '', message = '' } = (cause ?? {}) as Partial<NodeJS.ErrnoException>
  const wrong =
    cause instanceof ProtocolError ||
    code === 'EPROTO' ||
    // A plain server hangs up on the hello of TLS, which Node tells by these words alone.
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
    // gRPC asks readers to show a message that is encoded badly as it stands.
    return text
  }
}
