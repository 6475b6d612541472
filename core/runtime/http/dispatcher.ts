import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import { RuntimeError } from '../../errors.ts'
import { send } from './answer/answer.ts'
import { clientAddress } from './limits/client-address.ts'
import {
  type Cors,
  corsOf,
  isPreflight,
  readCors,
  refuseForeign,
  setCors,
  setPreflight,
} from './cors.ts'
import { namesClient } from './limits/forwarded.ts'
import { readHead, requestIdOf } from './read/head.ts'
import { createMounts, type ServedMount, type ServeMounts } from './routes/mounts.ts'
import type { Limit, RateLimits } from './limits/rate-limit.ts'
import { once, prepareInput } from './routes/input.ts'
import { readRouteKey, RouteTable } from './routes/routes.ts'
import { type CountRequest, createRouteLimit } from './limits/route-limit.ts'
import {
  prepareRoute,
  type RunOptions,
  type RunRoute,
  type ServedRoute,
} from './routes/run-route.ts'
import type { SseStream } from './answer/sse.ts'
import { isTwisted, type Target } from './read/target.ts'

/** What the dispatcher needs: the routes, who may call them, and the limits. */
interface DispatcherOptions extends Omit<RunOptions, 'opened'> {
  readonly routes: readonly ServedRoute[]
  readonly web: readonly ServedMount[]
  readonly rateLimits: RateLimits
  readonly ratePerMinute: number
  readonly trustProxy: boolean
  readonly cors: string
  readonly publicOrigin: string | undefined
  /** How long a client may take nothing of an answer. */
  readonly readMs: number
}

/** A route as it answers: its CORS rule, its limit, and how it runs. */
interface Entry {
  readonly cors: Cors
  readonly limit: CountRequest
  readonly run: RunRoute
}

const answeringPreflights = (web: readonly ServedMount[]) =>
  web.filter(({ handler }) => handler.answersPreflights)

const noContent = { status: 204, type: '', body: '' }

/** The way of a request to whoever answers it: head, target, CORS, limit, then the route or a web module. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #runOptions: RunOptions
  readonly #serverCors: Cors
  readonly #kernelLimit: Limit
  readonly #streams = new Set<SseStream>()
  #table: RouteTable<Entry>
  #askMounts: ServeMounts
  #askPreflights: ServeMounts
  #isToldOfProxy: boolean
  #farewell: { readonly reason: unknown } | undefined

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#runOptions = { ...options, opened: (stream) => this.#opened(stream) }
    this.#serverCors = readCors(options.cors)
    this.#kernelLimit = options.rateLimits.limit('kernel', options.ratePerMinute, 60_000)
    this.#isToldOfProxy = options.trustProxy
    this.#table = this.#compile(options.routes)
    this.#askMounts = createMounts(options.web, options.access)
    this.#askPreflights = createMounts(answeringPreflights(options.web), options.access)
  }

  /** Answers one request, whatever it is. Never rejects. */
  async serve(koa: Context): Promise<void> {
    const { req, res } = koa
    const requestId = requestIdOf(req)
    koa.state.requestId = requestId
    res.setHeader('X-Request-Id', requestId)
    res.setHeader('X-Content-Type-Options', 'nosniff')
    if (this.#farewell !== undefined) res.shouldKeepAlive = false
    try {
      koa.request.ip = this.#addressOf(req)
      const target = readHead(req)
      req.url = target.url
      await this.#dispatch(koa, target)
    } catch (error) {
      this.#options.failures.answer(koa, error)
    }
    // Most answers are in the kernel's hands by now. The rest waits in ours for a reader.
    if (koa.respond !== false || (res.writableEnded && res.writableLength > 0))
      res.setTimeout(this.#options.readMs, () => res.destroy())
  }

  /** Checks and counts what asks for no route, such as an upgrade; throws when it may not go on. */
  async admit(koa: Context): Promise<void> {
    koa.state.requestId = requestIdOf(koa.req)
    koa.request.ip = this.#addressOf(koa.req)
    readHead(koa.req)
    await this.#kernelLimit(koa)
  }

  /** Serves these routes, and web modules where given, from the next request on. */
  reroute(routes: readonly ServedRoute[], web?: readonly ServedMount[]): void {
    this.#table = this.#compile(routes)
    if (web === undefined) return
    const { access } = this.#options
    this.#askMounts = createMounts(web, access)
    this.#askPreflights = createMounts(answeringPreflights(web), access)
  }

  /** Tells every open stream that the server closes. */
  goodbye(reason: unknown): void {
    this.#farewell = { reason }
    for (const stream of this.#streams) stream.goodbye(reason)
  }

  #opened(stream: SseStream): void {
    this.#streams.add(stream)
    const forget = () => this.#streams.delete(stream)
    stream.done.then(forget, forget)
    if (this.#farewell !== undefined) stream.goodbye(this.#farewell.reason)
  }

  #compile(routes: readonly ServedRoute[]): RouteTable<Entry> {
    const { rateLimits } = this.#options
    return new RouteTable(
      routes.map((served) => {
        const key = readRouteKey(served.key)
        if (typeof key === 'string')
          throw new RuntimeError('ROUTE_INVALID', `The route "${served.key}" is malformed: ${key}.`)
        const { limit } = served.route
        const prepared = prepareInput(key, served.route)
        const readInput = limit?.by ? once(prepared) : prepared
        const entry: Entry = {
          cors: corsOf(served.route, this.#serverCors),
          limit: limit
            ? createRouteLimit(rateLimits, served.key, limit, readInput)
            : this.#kernelLimit,
          run: prepareRoute(served, key, this.#runOptions, readInput),
        }
        return { key, entry }
      }),
    )
  }

  /** The client's address. Whoever runs the server hears it when a proxy makes all clients look like one. */
  #addressOf(req: IncomingMessage): string {
    const header = this.#isToldOfProxy ? undefined : namesClient(req.headers)
    if (header !== undefined) {
      this.#isToldOfProxy = true
      this.#options.log.warn(
        `A request carries the header ${header} while TRUST_PROXY_ENABLED is off. If a proxy stands before this server, ` +
          'all its users count as one address: set TRUST_PROXY_ENABLED=true behind a proxy that sets X-Forwarded-For.',
      )
    }
    return clientAddress(req, this.#options.trustProxy)
  }

  async #dispatch(koa: Context, target: Target): Promise<void> {
    const { req, res, method } = koa
    // Dots and doubled slashes are how one path is dressed up as another: they reach nothing.
    const path = isTwisted(target.path) ? '' : target.path
    const match = this.#table.find(method, path)
    if (match !== undefined) {
      const { cors, limit, run } = match.entry
      setCors(cors, req, res)
      refuseForeign(cors, req, this.#options.publicOrigin)
      await limit(koa, match.captures, target.query)
      return run(koa, match.captures, target)
    }
    if (isPreflight(req)) return this.#answerPreflight(koa, path)
    setCors(this.#serverCors, req, res)
    await this.#kernelLimit(koa)
    const methods = this.#table.methods(path)
    if (path !== '' && (await this.#askMounts(koa, path, methods.length > 0))) return
    answerUnrouted(koa, methods)
  }

  async #answerPreflight(koa: Context, path: string): Promise<void> {
    const asked = this.#table.find(koa.get('Access-Control-Request-Method'), path)
    setPreflight(asked?.entry.cors ?? this.#serverCors, koa.req, koa.res)
    // What no route owns may belong to a web module with a rule of its own.
    const isRouted = asked !== undefined || this.#table.methods(path).length > 0
    if (!isRouted && path !== '' && (await this.#askPreflights(koa, path, isRouted))) return
    send(koa, noContent)
  }
}

/** Answers where neither a route nor a web module did: OPTIONS says the methods, all else is an error. */
function answerUnrouted(koa: Context, methods: readonly string[]): void {
  const { method, res } = koa
  const allow = [...methods, 'OPTIONS'].join(', ')
  if (method === 'OPTIONS') {
    if (methods.length > 0) res.setHeader('Allow', allow)
    return send(koa, noContent)
  }
  if (methods.length === 0) throw new RuntimeError('NOT_FOUND', 'Nothing answers at this address.')
  throw new RuntimeError(
    'METHOD_NOT_ALLOWED',
    `${method} is not served at this address, only ${methods.join(', ')}.`,
    { headers: { Allow: allow } },
  )
}
