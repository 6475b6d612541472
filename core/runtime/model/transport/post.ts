import type {
  Agent,
  ClientRequest,
  IncomingHttpHeaders,
  IncomingMessage,
  RequestOptions,
} from 'node:http'
import { urlToHttpOptions } from 'node:url'
import { RuntimeError } from '../../../errors.ts'
import { wholeJson } from '../../base/safe-json.ts'
import { modelFault } from './model-fault.ts'
import { nodeHttp } from '../../base/node-http.ts'

/** How long a request may take, in milliseconds. */
interface Patience {
  /** The time until the connection stands, TLS included. */
  readonly connectMs: number
  /** The time from the request to the head of the answer. */
  readonly headMs: number
}

/** A request whose answer has begun: the head is there, and a reader takes the body piece by piece. */
export interface ProviderExchange {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Resolves when `take` has something new to say, or after `ms` milliseconds. */
  ready(ms: number): Promise<void>
  /**
   * The text that came since the last call: `''` when none came, `undefined` at the end of the body. Throws when the
   * connection breaks, and the signal's reason when the signal fires.
   */
  take(): string | undefined
  /** Drops the rest of a body that is about to end, and waits a moment for its end, so that its socket can be used again. */
  finish(): void
  /** Drops the connection. */
  destroy(): void
}

/** Sends a request on a kept connection and resolves with the head of the answer, whatever its status. No body makes it a GET. */
export type Post = (
  body: string | undefined,
  signal: AbortSignal,
  patience: Patience,
  headers?: Readonly<Record<string, string>>,
) => Promise<ProviderExchange>

// All models of the process share one pool. Node does not let an idle socket keep the process alive.
const pool = { keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 256 }
const agents = new Map<string, Agent>()

/** When more characters than this wait to be taken, the socket pauses. */
const readAhead = 256 * 1024
/** How long `finish` waits for the end of the body before it drops the connection. */
const endingMs = 500

/**
 * Makes a function that sends to one address. It uses node:http, because the global fetch takes three times the CPU.
 * `address` names the setting of the address, for the operator.
 */
export function poster(url: URL, headers: Readonly<Record<string, string>>, address: string): Post {
  const { request, Agent } =
    url.protocol === 'https:' ? process.getBuiltinModule('node:https') : nodeHttp
  const agent = agents.get(url.protocol) ?? new Agent(pool)
  agents.set(url.protocol, agent)
  const options: RequestOptions = { ...urlToHttpOptions(url), agent }
  const server = { host: url.host, address }
  return async (given, signal, patience, further) => {
    const body = given === undefined ? undefined : wholeJson(given)
    const length = body === undefined ? undefined : { 'content-length': Buffer.byteLength(body) }
    const method = length ? 'POST' : 'GET'
    const open = () =>
      request({ ...options, method, headers: { ...headers, ...further, ...length } })
    try {
      return await begin(server, open(), body, signal, patience)
    } catch (error) {
      // The server closed a kept socket while the request was being written. It has not read the request, so it goes out again.
      if (!(error instanceof StaleSocket)) throw error
      return await begin(server, open(), body, signal, patience)
    }
  }
}

/** A kept socket turned out to be closed by the server. */
class StaleSocket extends Error {}

/** The server that is asked, and the setting that holds its address. */
interface Server {
  readonly host: string
  readonly address: string
}

function begin(
  { host, address }: Server,
  request: ClientRequest,
  body: string | undefined,
  signal: AbortSignal,
  { connectMs, headMs }: Patience,
): Promise<ProviderExchange> {
  const answered = new Promise<ProviderExchange>((resolve, reject) => {
    let fail = (error: unknown) => {
      settle()
      request.destroy()
      reject(error)
    }
    const settle = () => {
      clearTimeout(headTimer)
      clearTimeout(connectTimer)
    }
    const tooSlow = (what: string, ms: number) => () =>
      fail(modelFault('MODEL_TIMEOUT', host, `${what} within ${ms / 1000} s.`))
    const headTimer = setTimeout(tooSlow('did not begin to answer', headMs), headMs)
    let connectTimer: NodeJS.Timeout | undefined

    const onAbort = () => fail(signal.reason)
    signal.addEventListener('abort', onAbort)
    request.once('close', () => signal.removeEventListener('abort', onAbort))
    if (signal.aborted) onAbort()

    request.once('socket', (socket) => {
      if (!socket.connecting) return
      connectTimer = setTimeout(tooSlow('could not be connected', connectMs), connectMs)
      const connected = request.protocol === 'https:' ? 'secureConnect' : 'connect'
      socket.once(connected, () => clearTimeout(connectTimer))
    })
    // The listener stays for the life of the request: a destroyed socket may report an error late, and an error event without
    // a listener ends the process.
    request.on('error', (cause: NodeJS.ErrnoException) => {
      const dropped = cause.code === 'ECONNRESET' || cause.code === 'EPIPE'
      if (dropped && request.reusedSocket) return fail(new StaleSocket())
      fail(
        modelFault('MODEL_UNREACHABLE', host, `cannot be reached (${cause.code}).`, {
          hint: 'Try again in a moment.',
          check: `Check ${address} and the network.`,
          details: { reason: cause.code },
          cause,
        }),
      )
    })
    request.once('response', (response) => {
      settle()
      const { exchange, failed } = reading(host, request, response)
      fail = failed
      resolve(exchange)
    })
  })
  // This stands outside the promise, so that the listeners, which live as long as the answer, do not keep the body in memory.
  // Long conversations are mostly ASCII, and Node writes ASCII faster as latin1, without encoding it.
  const isAscii = request.getHeader('content-length') === body?.length
  if (!signal.aborted) request.end(body, isAscii ? 'latin1' : 'utf8')
  return answered
}

/** Reads the body of an answer. `failed` lets the caller end the reading with an error. */
function reading(host: string, request: ClientRequest, response: IncomingMessage) {
  let text = ''
  let ended = false
  let failure: { readonly error: unknown } | undefined
  let wake: (() => void) | undefined
  const patience = new Patient(() => wake?.())

  const failed = (error: unknown) => {
    if (ended || failure) return
    failure = { error }
    // After a break, the reader first gets the text that came before, because the break may follow the last word of the answer.
    // After a stop, the rest of the text is dropped.
    if (!isBreak(error)) text = ''
    request.destroy()
    wake?.()
  }
  const broken = (cause?: unknown) => {
    if (ended || failure) return
    failed(modelFault('MODEL_STREAM_BROKEN', host, `broke off in its answer.`, { cause }))
  }

  response.setEncoding('utf8')
  response.on('data', (piece: string) => {
    text += piece
    if (text.length > readAhead) response.pause()
    wake?.()
  })
  response.on('end', () => {
    ended = true
    wake?.()
  })
  response.on('error', broken)
  response.on('close', () => {
    broken()
    patience.stop()
  })

  const exchange: ProviderExchange = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    ready(ms) {
      if (text || ended || failure) return Promise.resolve()
      patience.begin(ms)
      return new Promise<void>((resolve) => (wake = resolve))
    },
    take() {
      wake = undefined
      patience.end()
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
      if (!ended) request.destroy()
    },
  }
  return { exchange, failed }
}

/** A timer for a wait that begins and ends with every word. One timeout serves many waits: it looks at the clock when it fires. */
class Patient {
  readonly #onLate: () => void
  #timer: NodeJS.Timeout | undefined
  #ms = 0
  #until = 0
  #waits = false

  constructor(onLate: () => void) {
    this.#onLate = onLate
  }

  /** Begins a wait: `onLate` runs unless `end` comes within `ms` milliseconds. */
  begin(ms: number): void {
    this.#waits = true
    this.#until = performance.now() + ms
    if (this.#timer && this.#ms === ms) return
    clearTimeout(this.#timer)
    this.#ms = ms
    this.#timer = setTimeout(this.#look, ms)
  }

  /** Ends the wait; the timeout goes on for the next one. */
  end(): void {
    this.#waits = false
  }

  /** Stops the timeout for good. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #look = (): void => {
    this.#timer = undefined
    if (!this.#waits) return
    const left = this.#until - performance.now()
    // Timers fire up to a millisecond early.
    if (left > 1) this.#timer = setTimeout(this.#look, left)
    else this.#onLate()
  }
}

function isBreak(error: unknown): boolean {
  return error instanceof RuntimeError && error.code === 'MODEL_STREAM_BROKEN'
}
