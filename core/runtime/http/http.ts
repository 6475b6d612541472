import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Redis } from 'ioredis'
import Koa from 'koa'
import { RuntimeError } from '../../errors.ts'
import type { Database, HeaderSection, HttpLayer, Log, ServedApi } from '../../plugin.ts'
import type { AuditTrail } from '../audit/trail.ts'
import type { Access } from './routes/access.ts'
import { Arrivals } from './limits/arrivals.ts'
import { Connections } from './limits/connections.ts'
import { Failures } from './answer/failure.ts'
import { Idempotency } from './limits/idempotency.ts'
import type { ServedMount } from './mounts.ts'
import { listen, type Listening } from './listen.ts'
import { describeApi, type OpenApi } from './routes/openapi.ts'
import type { Places } from './limits/places.ts'
import { RateLimits } from './limits/rate-limit.ts'
import { refusedInstead, type RequestWatch } from './answer/request-watch.ts'
import { responseOf } from './answer/response-of.ts'
import { answerRaw, parserError } from './answer/raw-answer.ts'
import type { ServedRoute } from './routes/run-route.ts'
import { Dispatcher } from './dispatcher.ts'
import type { ErrorWords } from './routes/error-words.ts'
import { sseLimits, type SseLimits } from './answer/sse.ts'
import { nodeHttp } from '../base/node-http.ts'
import { continueWhenRead } from './read/continue.ts'
import { readTarget } from './read/target.ts'

/** How long the edge waits. */
interface EdgeTimes {
  /** For the headers of a request. */
  readonly headersMs: number
  /** For a body of the usual size; a larger one has to keep its pace over so long. */
  readonly bodyMs: number
  /** For a reader who takes nothing of an answer. */
  readonly readMs: number
  /** Between the requests of one connection. Longer than the 60 s of the usual load balancer. */
  readonly keepAliveMs: number
  /** How often these times are checked. */
  readonly checkMs: number
}

const edgeTimes: EdgeTimes = {
  headersMs: 10_000,
  bodyMs: 30_000,
  readMs: 120_000,
  keepAliveMs: 65_000,
  checkMs: 1000,
}

/** The pace of large bodies where nothing else is said: 32 kbit/s. */
const usualUploadBytesPerS = 4096

/** What the HTTP edge needs. */
export interface HttpOptions {
  readonly log: Log
  readonly routes: readonly ServedRoute[]
  readonly web?: readonly ServedMount[]
  /** How the errors below an address are told, where the owner of the address tells them in words of its own. */
  readonly errors?: readonly ErrorWords[]
  /** Why an address that nothing answers at may still be served by somebody soon; undefined when it will not. */
  readonly unserved?: () => RuntimeError | undefined
  readonly access: Access
  /** Where writes leave their audit lines; without a trail there are none. */
  readonly audit?: AuditTrail
  readonly limits: {
    readonly ratePerMinute: number
    readonly trustProxy: boolean
    /** How many connections there may be; without it, as many as the system has. */
    readonly connections?: number
    /** How many bytes a second a body has to bring whose route takes more than usual; by default 4,096. */
    readonly uploadBytesPerS?: number
  }
  /** Sees each request; without it nobody does. */
  readonly watch?: RequestWatch
  /** Where open event streams are counted; without it the server does not count them. */
  readonly streams?: Places
  /** `*`, or origins with commas between. */
  readonly cors: string
  /** The headers of plugins that pages of other origins may send and read. */
  readonly headers?: HeaderSection
  /** Layers around every request, outermost first. */
  readonly around?: readonly HttpLayer[]
  /** Where idempotency keys are kept. Without it the header is ignored. */
  readonly db?: Database
  /** Where replicas share their rate limits. */
  readonly redis?: Redis
  /** Limits that were made elsewhere; the server closes them all the same. */
  readonly rateLimits?: RateLimits
  readonly publicUrl?: string
  readonly name?: string
  readonly version: string
  /** Whether an error means that the database is away. */
  isUnreachable?(error: unknown): boolean
  readonly times?: Partial<EdgeTimes>
  readonly sse?: Partial<SseLimits>
}

/** Takes an upgraded connection, or throws, and the server answers with the error. `ip` is the client's address. */
export type Upgrade = (req: IncomingMessage, socket: Duplex, head: Buffer, ip: string) => unknown

/** The HTTP edge: one server, every route and web module behind the same limits and the same errors. */
export class Http {
  readonly server: Server
  readonly #options: HttpOptions
  readonly #failures: Failures
  readonly #rateLimits: RateLimits
  readonly #idempotency: Idempotency | undefined
  readonly #dispatcher: Dispatcher
  readonly #koa: Koa
  readonly #connections: Connections
  readonly #arrivals: Arrivals
  readonly #upgrades = new Map<string, Upgrade>()
  readonly #shutdown = new AbortController()
  #routes: readonly ServedRoute[]
  #web: readonly ServedMount[]
  #document: OpenApi | undefined
  /** What the web modules said of themselves when the document was made. */
  #modules: readonly ServedApi[] = []
  #closing: Promise<void> | undefined

  constructor(options: HttpOptions) {
    const { log, limits, db, publicUrl } = options
    const times = { ...edgeTimes, ...options.times }
    this.#options = options
    this.#routes = options.routes
    this.#web = options.web ?? []
    this.#rateLimits = options.rateLimits ?? new RateLimits({ log, redis: options.redis })
    this.#idempotency = db && new Idempotency({ db, log })
    this.#failures = new Failures(log, options.isUnreachable ?? (() => false))
    this.#dispatcher = new Dispatcher({
      ratePerMinute: limits.ratePerMinute,
      trustProxy: limits.trustProxy,
      failures: this.#failures,
      log,
      routes: options.routes,
      web: options.web ?? [],
      errors: options.errors,
      unserved: options.unserved,
      access: options.access,
      audit: options.audit,
      rateLimits: this.#rateLimits,
      watch: options.watch,
      around: options.around ?? [],
      cors: options.cors,
      headers: options.headers,
      idempotency: this.#idempotency,
      publicOrigin: publicUrl === undefined ? undefined : new URL(publicUrl).origin,
      sse: { ...sseLimits, ...options.sse },
      streams: options.streams,
      readMs: times.readMs,
    })
    this.#koa = this.#makeKoa(limits.trustProxy)
    this.server = nodeServer(this.#koa, times)
    const { bodyMs: withinMs, checkMs } = times
    const pace = { withinMs, checkMs, bytesPerS: limits.uploadBytesPerS ?? usualUploadBytesPerS }
    this.#arrivals = new Arrivals(pace, refuseOn)
    this.server.on('request', (req) => this.#arrivals.enter(req))
    this.#connections = new Connections(this.server, limits.connections ?? Infinity, log)
    this.#hear()
  }

  /** Fires when the server begins to close. */
  get onShutdown(): AbortSignal {
    return this.#shutdown.signal
  }

  /**
   * Hands WebSocket upgrades at one path to `take`, within the kernel's rate limit; at any other path the server answers
   * 404.
   */
  upgrade(path: string, take: Upgrade): void {
    this.#upgrades.set(path, take)
  }

  /** How many event streams are open. */
  get openStreams(): number {
    return this.#dispatcher.openStreams
  }

  /** Resolves when the server listens. Port 0 takes a free one. */
  listen({ port, host }: { readonly port: number; readonly host: string }): Promise<Listening> {
    return listen(this.server, port, host)
  }

  /** Serves these routes, and web modules where given, from the next request on, in place of those before. */
  reroute(routes: readonly ServedRoute[], web?: readonly ServedMount[]): void {
    this.#dispatcher.reroute(routes, web)
    this.#routes = routes
    this.#web = web ?? this.#web
    this.#document = undefined
  }

  /** The OpenAPI document of every route and of the web modules that describe themselves. */
  openapi(): OpenApi {
    const modules = this.#web.flatMap(({ handler }) => handler.openapi?.() ?? [])
    const isSame =
      modules.length === this.#modules.length && modules.every((one, n) => one === this.#modules[n])
    if (this.#document !== undefined && isSame) return this.#document
    this.#modules = modules
    this.#document = describeApi({ ...this.#options, routes: this.#routes, modules })
    return this.#document
  }

  /** Resets every connection and stops accepting, as the death of the process would. */
  drop(): void {
    this.server.close()
    for (const socket of this.#connections.all()) socket.resetAndDestroy()
    this.#rateLimits.close()
    this.#idempotency?.close()
  }

  /** Stops accepting, lets what runs finish within `graceMs`, then cuts it off. */
  close(graceMs = 10_000): Promise<void> {
    this.#closing ??= this.#close(graceMs)
    return this.#closing
  }

  async #close(graceMs: number): Promise<void> {
    const reason = new RuntimeError('UNAVAILABLE', 'The server is closing.')
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()))
    this.#shutdown.abort(reason)
    this.#dispatcher.goodbye(reason)
    // Node does not count a connection as idle on which nothing was ever said.
    for (const socket of this.#connections.all()) if (socket.bytesRead === 0) socket.destroy()
    // A connection becomes idle when its last answer is out, and would then wait for the next.
    const idle = setInterval(() => this.server.closeIdleConnections(), 20)
    const last = setTimeout(() => {
      // Of a body that is not here yet nothing was done, so its sender is told to send it again. What is at work may be done or not.
      const told = this.#arrivals.refuseAll(reason)
      for (const socket of this.#connections.all()) if (!told.has(socket)) socket.destroy()
    }, graceMs)
    await closed
    clearInterval(idle)
    clearTimeout(last)
    this.#rateLimits.close()
    this.#idempotency?.close()
  }

  #makeKoa(trustProxy: boolean): Koa {
    const failures = this.#failures
    // One hop: Koa would otherwise believe the leftmost address, which the client writes itself.
    const koa = new Koa({ proxy: trustProxy, maxIpsCount: 1 })
    koa.use((context) => this.#dispatcher.serve(context))
    keepState(koa)
    koa.context.onerror = function (this: Koa.Context, error: unknown) {
      if (error !== null && error !== undefined) failures.answer(this, error)
    }
    return koa
  }

  /** Listens to what the server says beside requests. */
  #hear(): void {
    const { server } = this
    server.on('error', (error) => {
      // Before the server listens, `listen` rejects with the error.
      if (server.listening)
        this.#options.log.error({ err: error }, 'the server could not accept a connection')
    })
    server.on('clientError', (error, socket) => {
      const refusal = parserError(error)
      if (refusal && !responseOf(socket)) this.#options.watch?.unreadable(refusal)
      if (refusal === undefined) socket.destroy()
      else refuseOn(socket, refusal)
    })
    server.on('upgrade', (req, socket, head) => this.#upgraded(req, socket, head))
    server.on('connect', (_, socket) =>
      answerRaw(socket, new RuntimeError('METHOD_NOT_ALLOWED', 'This server is no proxy.')),
    )
    server.on('checkContinue', (req, res) => {
      continueWhenRead(req, res, () => this.#shutdown.signal.aborted)
      server.emit('request', req, res)
    })
    // An Expect header that the server does not know is no reason to refuse the request.
    server.on('checkExpectation', (req, res) => void server.emit('request', req, res))
  }

  #upgraded(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#connections.upgraded(req.socket)
    const path = readTarget(req.url ?? '')?.path ?? ''
    const take = this.#upgrades.get(path)
    // Another listener of `upgrade` may know this path, and is then the one that answers.
    if (take === undefined && this.server.listenerCount('upgrade') > 1) return
    const context = this.#koa.createContext(req, new nodeHttp.ServerResponse(req))
    const gone = () => socket.destroy()
    socket.on('error', gone)
    this.#dispatcher
      .admit(context)
      .then(async () => {
        if (take === undefined)
          throw new RuntimeError('NOT_FOUND', 'No socket is served at this address.')
        context.state.route = `GET ${path}`
        await take(req, socket, head, context.ip)
        this.#options.watch?.upgraded(context)
        socket.off('error', gone)
      })
      .catch((thrown: unknown) => {
        const refusal = this.#failures.explain(context, thrown)
        this.#options.watch?.upgraded(context, refusal)
        answerRaw(socket, refusal, context.state.requestId)
      })
  }
}

/** Answers on a connection that is then closed. */
function refuseOn(socket: Duplex, refusal: RuntimeError): void {
  const res = responseOf(socket)
  // Bytes of an answer are out already, so a second one would be read as part of it.
  if (res?.headersSent) return void socket.destroy()
  if (res) refusedInstead(res, refusal)
  answerRaw(socket, refusal)
}

function nodeServer(koa: Koa, times: EdgeTimes): Server {
  return nodeHttp.createServer(
    {
      headersTimeout: times.headersMs,
      // One time for every request, however large: `Arrivals` watches the bodies instead.
      requestTimeout: 0,
      keepAliveTimeout: times.keepAliveMs,
      connectionsCheckingInterval: times.checkMs,
      maxHeaderSize: 16 * 1024,
      // `readHead` checks Host: its refusal has the shape of every error.
      requireHostHeader: false,
      // Clients that offer HTTP/2 on the side are served as if they had not.
      shouldUpgradeCallback: isWebSocket,
    },
    koa.callback(),
  )
}

function isWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket'
}

const keptState = Symbol('state')

/**
 * Lets nothing replace the state of a request, where the kernel keeps the id of the request and who calls: what a layer
 * or a web module assigns to `koa.state` joins what is there.
 */
function keepState({ context }: Koa): void {
  Object.defineProperty(context, 'state', {
    get(this: { [keptState]?: object }) {
      return (this[keptState] ??= {})
    },
    set(this: { [keptState]?: object }, given: unknown) {
      Object.assign((this[keptState] ??= {}), given)
    },
  })
}
