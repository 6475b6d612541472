import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import type { IncomingHttpHeaders } from 'node:http2'
import { FrameReader, frame } from './frames.ts'
import { CallError, grpc } from './statuses.ts'
import type { Call, Metadata, StreamAnswer, Transport, UnaryAnswer } from './transport.ts'

export interface Http2Options {
  /** host:port */
  readonly upstream: string
  readonly tls: boolean
  /** PEM of the authorities to trust instead of the system's. */
  readonly ca?: string
  readonly maxMessageBytes?: number
}

const { HTTP2_HEADER_METHOD, HTTP2_HEADER_PATH, NGHTTP2_CANCEL, NGHTTP2_REFUSED_STREAM } = constants
/** How long an upstream that let a deadline pass may take to answer a ping before it is given up. */
const pingPatienceMs = 5000
const windowBytes = 1024 * 1024

/** gRPC over one connection of node:http2, made when it is needed and again when it broke. */
export function createHttp2Transport({
  upstream,
  tls,
  ca,
  maxMessageBytes = 16 * 1024 * 1024,
}: Http2Options): Transport {
  let current: ClientHttp2Session | undefined
  let closed = false
  const failures = new WeakMap<ClientHttp2Session, Error>()
  /** Connections on which the other side said anything in HTTP/2. */
  const spoke = new WeakSet<ClientHttp2Session>()

  function session(): ClientHttp2Session {
    if (closed) throw new CallError(grpc.unavailable, 'The gateway is closing.')
    if (current !== undefined && !current.destroyed && !current.closed) return current
    const made = connect(`${tls ? 'https' : 'http'}://${upstream}`, {
      settings: { initialWindowSize: windowBytes, enablePush: false },
      ...(ca === undefined ? {} : { ca }),
    })
    current = made
    const forget = () => {
      if (current === made) current = undefined
    }
    made.on('connect', () => made.setLocalWindowSize(windowBytes * 4))
    made.on('error', (error) => failures.set(made, error))
    made.on('remoteSettings', () => spoke.add(made))
    made.on('goaway', forget)
    made.on('close', forget)
    // An idle connection must not keep the process alive.
    made.unref()
    return made
  }

  function open(call: Call): { stream: ClientHttp2Stream; on: ClientHttp2Session } {
    const on = session()
    const headers = {
      [HTTP2_HEADER_METHOD]: 'POST',
      [HTTP2_HEADER_PATH]: call.path,
      'content-type': 'application/grpc',
      te: 'trailers',
      'user-agent': 'oracle-runtime',
      'grpc-accept-encoding': 'identity',
      ...(call.deadlineMs === undefined
        ? {}
        : { 'grpc-timeout': `${Math.min(Math.ceil(call.deadlineMs), 99_999_999)}m` }),
      ...(call.metadata as Record<string, string | string[]>), // copied by node, never changed
    }
    try {
      const stream = on.request(headers)
      const [only] = call.messages
      if (call.messages.length === 1 && only !== undefined) stream.end(frame(only))
      else stream.end(Buffer.concat(call.messages.map(frame)))
      return { stream, on }
    } catch (cause) {
      throw lost(cause)
    }
  }

  /** Runs one call: messages as they come, then how it ended. */
  function run(
    call: Call,
    handle: {
      headers(headers: IncomingHttpHeaders): void
      message(bytes: Uint8Array, stream: ClientHttp2Stream): void
      end(failure: CallError | undefined): void
    },
  ): void {
    let stream: ClientHttp2Stream
    let on: ClientHttp2Session
    try {
      call.signal?.throwIfAborted()
      ;({ stream, on } = open(call))
    } catch (thrown) {
      return handle.end(
        thrown instanceof CallError
          ? thrown
          : new CallError(grpc.cancelled, 'The call was cancelled.'),
      )
    }
    let ended = false
    let head: IncomingHttpHeaders | undefined
    let trailers: IncomingHttpHeaders | undefined
    let foreign: CallError | undefined
    let failure: Error | undefined
    const reader = new FrameReader(maxMessageBytes)
    const finish = (error: CallError | undefined) => {
      if (ended) return
      ended = true
      clearTimeout(timer)
      call.signal?.removeEventListener('abort', leave)
      if (error !== undefined && !stream.destroyed) stream.close(NGHTTP2_CANCEL)
      handle.end(error)
    }
    const leave = () => finish(new CallError(grpc.cancelled, 'The call was cancelled.'))
    call.signal?.addEventListener('abort', leave, { once: true })
    const timer =
      call.deadlineMs === undefined
        ? undefined
        : setTimeout(() => {
            finish(new CallError(grpc.deadlineExceeded, 'The upstream did not answer in time.'))
            giveUpIfSilent(on)
          }, call.deadlineMs)

    stream.on('response', (headers) => {
      head = headers
      if (!String(headers['content-type'] ?? '').startsWith('application/grpc')) {
        foreign = noGrpc()
        stream.resume()
        return finish(foreign)
      }
      if (headers['grpc-status'] !== undefined) trailers = headers
      handle.headers(headers)
    })
    stream.on('trailers', (given) => (trailers = given))
    stream.on('data', (chunk: Buffer) => {
      if (ended) return
      try {
        reader.push(chunk, (bytes) => handle.message(bytes, stream))
      } catch (thrown) {
        finish(thrown instanceof CallError ? thrown : noGrpc(thrown))
      }
    })
    stream.on('error', (error) => (failure = error))
    stream.on('close', () => {
      if (ended) return
      if (trailers?.['grpc-status'] !== undefined) return finish(statusOf(trailers))
      if (head !== undefined && failure === undefined && stream.rstCode === 0)
        return finish(noGrpc())
      if (stream.rstCode === NGHTTP2_REFUSED_STREAM) return finish(lost(failure))
      // The stream ends before its connection tells why; the reason is then the cause of its error.
      const why = failures.get(on) ?? failure?.cause ?? failure
      finish(why === undefined && !spoke.has(on) ? noGrpc() : brokenBy(why))
    })
  }

  function giveUpIfSilent(on: ClientHttp2Session): void {
    if (on.destroyed) return
    const timer = setTimeout(() => on.destroy(), pingPatienceMs)
    timer.unref()
    try {
      if (!on.ping(() => clearTimeout(timer))) clearTimeout(timer)
    } catch {
      // The session is still connecting or already gone: there is nobody to ping.
      on.destroy()
      clearTimeout(timer)
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
            else if (message === undefined || count > 1)
              reject(
                new CallError(
                  grpc.internal,
                  `The upstream sent ${count} messages where one is due.`,
                  {
                    status: 502,
                  },
                ),
              )
            else resolve({ message, metadata })
          },
        })
      })
    },

    serverStream(call): StreamAnswer {
      const head = Promise.withResolvers<Metadata>()
      head.promise.catch(() => undefined) // whoever reads the messages meets the same failure
      const queue: Uint8Array[] = []
      const left = new AbortController()
      const signal = call.signal ? AbortSignal.any([call.signal, left.signal]) : left.signal
      let source: ClientHttp2Stream | undefined
      let done: { failure: CallError | undefined } | undefined
      let wake = Promise.withResolvers<void>()
      run(
        { ...call, signal },
        {
          headers: (headers) => head.resolve(headers),
          message(bytes, stream) {
            source = stream
            queue.push(bytes)
            // A reader that lags holds back the upstream instead of filling our memory.
            if (queue.length > 16) stream.pause()
            wake.resolve()
          },
          end(failure) {
            done = { failure }
            if (failure) head.reject(failure)
            else head.resolve({})
            wake.resolve()
          },
        },
      )
      async function* read() {
        try {
          for (;;) {
            const next = queue.shift()
            if (next !== undefined) {
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
          left.abort()
        }
      }
      return { metadata: head.promise, messages: read() }
    },

    close() {
      closed = true
      current?.destroy()
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

/** A connection that spoke something else than HTTP/2 or TLS is a wrong upstream; any other is away. */
function brokenBy(cause: unknown): CallError {
  const { code = '', message = '' } = (cause ?? {}) as Partial<NodeJS.ErrnoException>
  const wrong =
    code === 'ERR_HTTP2_ERROR' ||
    code === 'EPROTO' ||
    // A plain server hangs up on the hello of TLS, which Node tells by these words alone.
    message.includes('before secure TLS connection') ||
    /^(ERR_SSL|ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(code)
  return wrong ? noGrpc(cause) : lost(cause)
}

/** What the trailers say; undefined for OK. */
function statusOf(trailers: IncomingHttpHeaders): CallError | undefined {
  const code = Number(trailers['grpc-status'])
  if (code === 0) return undefined
  if (!Number.isInteger(code) || code < 0) return noGrpc()
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
