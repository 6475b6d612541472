import { connect as connectPlain, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { FrameReader, frame } from './frames.ts'
import { Http2Connection } from '../http2/connection.ts'
import { encodeHeaders, type Headers } from '../http2/hpack.ts'
import { type Closed, type OpenStream, ProtocolError } from '../http2/stream.ts'
import { CallError, grpc } from '../statuses.ts'
import type { Call, Metadata, StreamAnswer, Transport, UnaryAnswer } from './transport.ts'

/** Where the upstream is, and what it may send. */
export interface Http2Options {
  /** host:port */
  readonly upstream: string
  readonly tls: boolean
  /** PEM of the authorities to trust instead of the system's. */
  readonly ca?: string
  readonly maxMessageBytes?: number
  /** How long an upstream that let a deadline pass may take to answer a ping before it is given up. */
  readonly pingPatienceMs?: number
}

const keepAliveMs = 60_000
/** How often a call is asked anew that the upstream says it has not looked at. */
const mostRefusals = 2
/** What waits for a reader before the upstream is held back. */
const mostQueued = { messages: 16, bytes: 64 * 1024 }

/** What a call tells whoever made it. */
interface CallEvents {
  headers(headers: Headers): void
  message(bytes: Uint8Array): void
  /** Comes once, last. */
  end(failure: CallError | undefined): void
}

/** gRPC over one HTTP/2 connection, made when it is needed and again when it broke. */
export function createHttp2Transport({
  upstream,
  tls,
  ca,
  maxMessageBytes = 16 * 1024 * 1024,
  pingPatienceMs = 5000,
}: Http2Options): Transport {
  const colon = upstream.lastIndexOf(':')
  const port = Number(upstream.slice(colon + 1))
  const host = upstream.slice(0, colon).replace(/^\[(.*)\]$/, '$1')
  let current: Http2Connection | undefined
  let closed = false
  let wasThere = false
  const listeners: (() => void)[] = []

  function connection(): Http2Connection {
    if (closed) throw new CallError(grpc.unavailable, 'The gateway is closing.')
    if (current?.usable) return current
    const socket = tls
      ? connectTls({
          host,
          port,
          ALPNProtocols: ['h2'],
          ...(isIP(host) ? {} : { servername: host }),
          ...(ca === undefined ? {} : { ca }),
        })
      : connectPlain({ host, port })
    // A peer that vanished without a word is noticed even while nothing but a quiet stream is open.
    socket.setKeepAlive(true, keepAliveMs)
    return (current = new Http2Connection(socket, () => {
      if (wasThere) for (const listener of listeners) listener()
      wasThere = true
    }))
  }

  /** By path: the part of the header block that is the same for each call. */
  const fixed = new Map<string, Buffer>()
  function blockOf({ path, deadlineMs, metadata }: Call): Buffer {
    let block = fixed.get(path)
    if (block === undefined) {
      block = encodeHeaders([
        [':method', 'POST'],
        [':scheme', tls ? 'https' : 'http'],
        [':path', path],
        [':authority', upstream],
        ['content-type', 'application/grpc'],
        ['te', 'trailers'],
        ['user-agent', 'oracle-runtime'],
        ['grpc-accept-encoding', 'identity'],
      ])
      fixed.set(path, block)
    }
    const own: [string, string][] = []
    if (deadlineMs !== undefined)
      own.push(['grpc-timeout', `${Math.min(Math.ceil(deadlineMs), 99_999_999)}m`])
    for (const name in metadata)
      for (const value of [metadata[name] ?? []].flat()) own.push([name, value])
    return own.length === 0 ? block : Buffer.concat([block, encodeHeaders(own)])
  }

  /** Runs one call: messages as they come, then how it ended. */
  function run(call: Call, events: CallEvents): OpenStream | undefined {
    let open: OpenStream | undefined
    let on: Http2Connection | undefined
    let timer: NodeJS.Timeout | undefined
    let ended = false
    let refusals = 0
    let head: Headers | undefined
    let trailers: Headers | undefined
    const reader = new FrameReader(maxMessageBytes)
    const take = (bytes: Uint8Array) => events.message(bytes)
    const finish = (failure: CallError | undefined) => {
      if (ended) return
      ended = true
      clearTimeout(timer)
      call.signal?.removeEventListener('abort', leave)
      events.end(failure)
    }
    /** Ends a call that the other side has not ended. */
    const quit = (failure: CallError) => {
      open?.cancel()
      finish(failure)
    }
    const leave = () => quit(new CallError(grpc.cancelled, 'The call was cancelled.'))

    const stream = {
      headers(headers: Headers) {
        if (head !== undefined) {
          trailers = headers
          return
        }
        head = headers
        if (!String(headers['content-type'] ?? '').startsWith('application/grpc'))
          return quit(noGrpc())
        if (headers['grpc-status'] !== undefined) trailers = headers
        events.headers(headers)
      },
      data(chunk: Buffer) {
        try {
          if (head === undefined) return quit(noGrpc())
          reader.push(chunk, take)
        } catch (thrown) {
          quit(thrown instanceof CallError ? thrown : noGrpc(thrown))
        }
      },
      closed(how: Closed) {
        if (ended) return
        if (trailers?.['grpc-status'] !== undefined)
          return finish(statusOf(trailers) ?? (reader.isCut ? noGrpc() : undefined))
        if (how.kind === 'refused' && head === undefined && refusals++ < mostRefusals) return ask()
        finish(failureOf(how))
      },
    }
    const block = blockOf(call)
    const [only] = call.messages
    const body =
      call.messages.length === 1 && only !== undefined
        ? frame(only)
        : Buffer.concat(call.messages.map(frame))
    function ask(): void {
      try {
        on = connection()
        open = on.open(block, body, stream)
      } catch (thrown) {
        finish(thrown instanceof CallError ? thrown : lost(thrown))
      }
    }

    if (call.signal?.aborted) {
      leave()
      return undefined
    }
    ask()
    if (ended) return undefined
    call.signal?.addEventListener('abort', leave, { once: true })
    if (call.deadlineMs !== undefined)
      timer = setTimeout(() => {
        quit(new CallError(grpc.deadlineExceeded, 'The upstream did not answer in time.'))
        on?.check(pingPatienceMs)
      }, call.deadlineMs)
    return {
      cancel: leave,
      pause: () => open?.pause(),
      resume: () => open?.resume(),
    }
  }

  return {
    unary(call) {
      return new Promise<UnaryAnswer>((resolve, reject) => {
        let metadata: Metadata = {}
        let message: Uint8Array | undefined
        let count = 0
        run(call, {
          headers: (headers) => void (metadata = headers),
          message(bytes) {
            message = bytes
            count++
          },
          end(failure) {
            if (failure !== undefined) reject(failure)
            // Servers that answer nothing at all mean a message with its defaults.
            else if (count <= 1) resolve({ message: message ?? new Uint8Array(), metadata })
            else
              reject(
                new CallError(
                  grpc.internal,
                  `The upstream sent ${count} messages where one is due.`,
                  { status: 502 },
                ),
              )
          },
        })
      })
    },

    serverStream(call): StreamAnswer {
      const head = Promise.withResolvers<Metadata>()
      head.promise.catch(() => undefined) // whoever reads the messages meets the same failure
      const queue: Uint8Array[] = []
      let queuedBytes = 0
      let done: { failure: CallError | undefined } | undefined
      let wake = Promise.withResolvers<void>()
      const source = run(call, {
        headers: (headers) => head.resolve(headers),
        message(bytes) {
          queue.push(bytes)
          queuedBytes += bytes.length
          // A reader that lags holds back the upstream instead of filling our memory.
          if (queue.length > mostQueued.messages || queuedBytes > mostQueued.bytes) source?.pause()
          wake.resolve()
        },
        end(failure) {
          done = { failure }
          if (failure) head.reject(failure)
          else head.resolve({})
          wake.resolve()
        },
      })
      async function* read() {
        try {
          for (;;) {
            const next = queue.shift()
            if (next !== undefined) {
              queuedBytes -= next.length
              yield next
              continue
            }
            if (done?.failure) throw done.failure
            if (done) return
            source?.resume()
            await wake.promise
            wake = Promise.withResolvers()
          }
        } finally {
          source?.cancel()
        }
      }
      return { metadata: head.promise, messages: read() }
    },

    onReturn: (listener) => void listeners.push(listener),

    close() {
      closed = true
      current?.destroy(new Error('the gateway is closing'))
    },
  }
}

const retryAfter = { 'Retry-After': '1' }

function lost(cause: unknown): CallError {
  return new CallError(grpc.unavailable, 'The upstream cannot be reached.', {
    headers: retryAfter,
    cause,
  })
}

function noGrpc(cause?: unknown): CallError {
  return new CallError(grpc.unavailable, 'The upstream did not answer as a gRPC server does.', {
    status: 502,
    cause,
  })
}

/** What a stream that closed without a status says about the upstream. */
function failureOf(how: Closed): CallError {
  if (how.kind === 'ended') return noGrpc()
  if (how.kind !== 'lost') return lost(new Error(`the stream closed: ${JSON.stringify(how)}`))
  return how.cause === undefined && !how.spoke ? noGrpc() : brokenBy(how.cause)
}

/** A connection that spoke something else than HTTP/2 or TLS is a wrong upstream; any other is away. */
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

/** What the trailers say; undefined for OK. */
function statusOf(trailers: Headers): CallError | undefined {
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
