import http from 'node:http'
import https from 'node:https'
import { RuntimeError } from '../../errors.ts'

/** How long a request may keep us waiting, in milliseconds. */
export interface Patience {
  /** Until the connection stands, TLS included. */
  readonly connectMs: number
  /** From the request to the head of the answer. */
  readonly headMs: number
}

/** A request that was answered: the head is there, the body is read piece by piece. */
export interface Exchange {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  /**
   * The text that came since the last read, `''` when none came within `ms`, `undefined` at the
   * end of the body. Throws when the connection breaks, or with the signal's reason when it fires.
   */
  read(ms: number): Promise<string | undefined>
  /** The rest does not matter: lets a body that is ending end, so that its socket is used again. */
  finish(): void
  /** Drops the connection. */
  destroy(): void
}

// One pool for all models of the process. Idle sockets are unreferenced by Node: none keeps it alive.
const pool = { keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 256 }
const agents = { 'http:': new http.Agent(pool), 'https:': new https.Agent(pool) }

/** Text that nobody reads pauses the socket beyond this many characters. */
const readAhead = 256 * 1024
/** A finished body gets this long to end by itself. */
const endingMs = 500

/**
 * Posts on a kept connection and resolves with the head of the answer, whatever its status.
 * node:http, because the global fetch costs 2 ms of CPU in a turn.
 */
export async function post(
  url: URL,
  headers: Record<string, string>,
  body: Buffer,
  signal: AbortSignal,
  patience: Patience,
): Promise<Exchange> {
  try {
    return await postOnce(url, headers, body, signal, patience)
  } catch (error) {
    // A kept socket that the server closed while we wrote: nobody read the request, so send it anew.
    if (!(error instanceof StaleSocket)) throw error
    return await postOnce(url, headers, body, signal, patience)
  }
}

class StaleSocket extends Error {}

function postOnce(
  url: URL,
  headers: Record<string, string>,
  body: Buffer,
  signal: AbortSignal,
  patience: Patience,
): Promise<Exchange> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const secure = url.protocol === 'https:'
    const request = (secure ? https : http).request(url, {
      method: 'POST',
      agent: agents[secure ? 'https:' : 'http:'],
      headers: { ...headers, 'content-length': body.length },
    })

    const settle = () => {
      clearTimeout(headTimer)
      clearTimeout(connectTimer)
      signal.removeEventListener('abort', onAbort)
    }
    const fail = (error: unknown) => {
      settle()
      request.destroy()
      reject(error)
    }
    const onAbort = () => fail(signal.reason)
    const tooSlow = (what: string, ms: number) => () =>
      fail(new RuntimeError('MODEL_TIMEOUT', `${url.host} ${what} within ${ms / 1000} s.`))

    signal.addEventListener('abort', onAbort)
    const headTimer = setTimeout(
      tooSlow('did not begin to answer', patience.headMs),
      patience.headMs,
    )
    let connectTimer: NodeJS.Timeout | undefined
    request.once('socket', (socket) => {
      if (!socket.connecting) return
      connectTimer = setTimeout(
        tooSlow('could not be connected', patience.connectMs),
        patience.connectMs,
      )
      socket.once(secure ? 'secureConnect' : 'connect', () => clearTimeout(connectTimer))
    })
    // Stays for the life of the request: a destroyed socket reports late, and to nobody is a crash.
    request.on('error', (cause: NodeJS.ErrnoException) => {
      const dropped = cause.code === 'ECONNRESET' || cause.code === 'EPIPE'
      if (dropped && request.reusedSocket) return fail(new StaleSocket())
      fail(
        new RuntimeError('MODEL_UNREACHABLE', `${url.host} cannot be reached (${cause.code}).`, {
          hint: 'Check OPENAI_BASE_URL and the network.',
          details: { reason: cause.code },
          cause,
        }),
      )
    })
    request.once('response', (response) => {
      settle()
      resolve(exchange(url, request, response, signal))
    })
    request.end(body)
  })
}

function exchange(
  url: URL,
  request: http.ClientRequest,
  response: http.IncomingMessage,
  signal: AbortSignal,
): Exchange {
  let text = ''
  let ended = false
  let failure: { readonly error: unknown } | undefined
  let wake: (() => void) | undefined

  const stop = () => signal.removeEventListener('abort', onAbort)
  const fail = (error: unknown) => {
    if (ended || failure) return
    failure = { error }
    stop()
    request.destroy()
    wake?.()
  }
  const onAbort = () => {
    text = ''
    fail(signal.reason)
  }
  const broken = (cause?: unknown) =>
    fail(new RuntimeError('MODEL_STREAM_BROKEN', `${url.host} broke off in its answer.`, { cause }))

  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  response.setEncoding('utf8')
  response.on('data', (piece: string) => {
    text += piece
    if (text.length > readAhead) response.pause()
    wake?.()
  })
  response.on('end', () => {
    ended = true
    stop()
    wake?.()
  })
  response.on('error', broken)
  response.on('close', () => broken())

  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    async read(ms) {
      if (!text && !ended && !failure) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms)
          wake = () => (clearTimeout(timer), resolve())
        })
        wake = undefined
      }
      // What came before a break is handed over first: the break may follow the last word.
      if (text) {
        const piece = text
        text = ''
        if (response.isPaused()) response.resume()
        return piece
      }
      if (failure) throw failure.error
      return ended ? undefined : ''
    },
    finish() {
      if (ended || failure) return
      response.removeAllListeners('data').resume()
      const timer = setTimeout(() => request.destroy(), endingMs).unref()
      response.once('close', () => clearTimeout(timer))
    },
    destroy() {
      stop()
      if (!ended) request.destroy()
    },
  }
}
