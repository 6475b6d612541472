import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import { RuntimeError } from '../../errors.ts'
import type { HeaderSection, HttpLayer, RendersErrors } from '../../plugin.ts'
import { onion } from '../base/onion.ts'
import { bodyless, isAnswered, send } from './answer/answer.ts'
import { ofStatus } from './answer/error-body.ts'
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
import { type ErrorWords, errorWordsAt } from './routes/error-words.ts'
import { namesClient } from './limits/forwarded.ts'
import { readHead, requestIdOf } from './read/head.ts'
import { Mounts, type ServedMount } from './mounts.ts'
import type { Limit, RateLimits } from './limits/rate-limit.ts'
import { once, prepareInput } from './routes/input.ts'
import { readRouteKey, RouteTable } from './routes/routes.ts'
import { type CountRequest, createRouteLimit } from './limits/route-limit.ts'
import {
  prepareRoute,
  type RunOptions,
  type RouteRunner,
  type ServedRoute,
} from './routes/run-route.ts'
import { proofOf } from './routes/access.ts'
import type { EventStream } from './routes/streamed.ts'
import type { RequestWatch } from './answer/request-watch.ts'
import { isTwisted, type Target } from './read/target.ts'

/** What the dispatcher needs: the routes, who may call them, and the limits. */
interface DispatcherOptions extends Omit<RunOptions, 'opened'> {
  readonly routes: readonly ServedRoute[]
  readonly web: readonly ServedMount[]
  /** Layers around every request, outermost first. */
  readonly around: readonly HttpLayer[]
  readonly rateLimits: RateLimits
  /** Sees each request; without it nobody does. */
  readonly watch?: RequestWatch
  readonly ratePerMinute: number
  readonly trustProxy: boolean
  readonly cors: string
  /** The headers of plugins that pages of other origins may send and read. */
  readonly headers?: HeaderSection
  /** How the errors below an address are told, where the owner of the address tells them in words of its own. */
  readonly errors?: readonly ErrorWords[]
  readonly publicOrigin: string | undefined
  /** Why an address that nothing answers at may still be served by somebody soon; undefined when it will not. */
  readonly unserved?: () => RuntimeError | undefined
}

/** A route as it answers: its CORS rule, its limit, and how it runs. */
interface Entry {
  readonly cors: Cors
  readonly limit: CountRequest
  readonly isProbe: boolean
  readonly provesLater: boolean
  readonly onError: RendersErrors | undefined
  readonly run: RouteRunner
  /** What the layers around a request, and the log, are told of its route. */
  readonly named: { readonly route: string; readonly plugin: string }
}

/** A request on its way through the layers. */
interface Passing {
  readonly koa: Context
  readonly target: Target
  /** The answer under way, once the innermost layer called `next()`. */
  answered: Promise<void> | undefined
}

/** A route with a check of its own counts its callers itself, once it knows them. */
const uncounted: CountRequest = () => {}

const noContent = { status: 204, type: '', body: '' }

/** Leads every request through head, target, CORS and limit to its route or web module. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #runOptions: RunOptions
  readonly #serverCors: Cors
  readonly #kernelLimit: Limit
  readonly #streams = new Set<EventStream>()
  /** The layers around every request; without any, none is asked. */
  readonly #layers: ((koa: Context, target: Target) => Promise<void>) | undefined
  #table: RouteTable<Entry>
  #mounts: Mounts
  #isToldOfProxy: boolean
  #farewell: { readonly reason: unknown } | undefined

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#runOptions = { ...options, opened: (stream) => this.#opened(stream) }
    this.#serverCors = readCors(options.cors, options.headers)
    this.#kernelLimit = options.rateLimits.limit('kernel', options.ratePerMinute, 60_000)
    this.#layers = options.around.length > 0 ? this.#layered(options.around) : undefined
    this.#isToldOfProxy = options.trustProxy
    this.#table = this.#compile(options.routes)
    this.#mounts = this.#mountsOf(options.web)
  }

  /** Answers one request, whatever it is. Never rejects. */
  async serve(koa: Context): Promise<void> {
    const { req, res } = koa
    const requestId = requestIdOf(req)
    koa.state.requestId = requestId
    res.setHeader('X-Request-Id', requestId)
    res.setHeader('X-Content-Type-Options', 'nosniff')
    if (this.#farewell !== undefined) res.shouldKeepAlive = false
    this.#options.watch?.begin(koa)
    try {
      koa.request.ip = this.#addressOf(req)
      const target = readHead(req)
      req.url = target.url
      if (this.#layers) await this.#layers(koa, target)
      else await this.#dispatch(koa, target)
    } catch (error) {
      this.#options.failures.answer(koa, await provedFirst(koa, error))
    }
    // The operating system has taken most answers by now. Any other waits in this process for its reader.
    if (koa.respond !== false || (res.writableEnded && res.writableLength > 0))
      res.setTimeout(this.#options.readMs, () => res.destroy())
  }

  /** Each layer around the next, and the dispatch inside them all: what fails there is answered before they go on. */
  #layered(layers: readonly HttpLayer[]): (koa: Context, target: Target) => Promise<void> {
    const all = onion<Passing, void>(
      layers.map(
        (layer) =>
          ({ koa }, next) =>
            layer(koa, next),
      ),
      (passing) => (passing.answered = this.#answered(passing)),
    )
    return async (koa, target) => {
      const passing: Passing = { koa, target, answered: undefined }
      await all(passing)
      // A layer may not wait for `next()`: Koa would answer 404 while the route is still at work.
      await passing.answered
      if (passing.answered || isAnswered(koa) || bodyless.has(koa.status)) return
      // 404 is where Koa begins, so a layer that did nothing looks like one that set it.
      if (koa.status >= 400 && koa.status !== 404) throw bareStatus(koa)
      throw new Error('A layer of middleware.http neither answered a request nor called next().')
    }
  }

  /** Dispatches a request and answers what fails. Never rejects. */
  async #answered({ koa, target }: Passing): Promise<void> {
    try {
      await this.#dispatch(koa, target)
    } catch (error) {
      this.#options.failures.answer(koa, await provedFirst(koa, error))
    }
  }

  /** Checks and counts a request for no route, such as an upgrade; throws when the request may not go on. */
  async admit(koa: Context): Promise<void> {
    koa.state.requestId = requestIdOf(koa.req)
    koa.request.ip = this.#addressOf(koa.req)
    readHead(koa.req)
    await this.#kernelLimit(koa)
  }

  /** Serves these routes, and web modules where given, from the next request on. */
  reroute(routes: readonly ServedRoute[], web?: readonly ServedMount[]): void {
    this.#table = this.#compile(routes)
    if (web !== undefined) this.#mounts = this.#mountsOf(web)
  }

  /** How many event streams are open. */
  get openStreams(): number {
    return this.#streams.size
  }

  /** Tells every open stream that the server closes. */
  goodbye(reason: unknown): void {
    this.#farewell = { reason }
    for (const stream of this.#streams) stream.goodbye(reason)
  }

  #opened(stream: EventStream): void {
    this.#streams.add(stream)
    const forget = () => this.#streams.delete(stream)
    stream.done.then(forget, forget)
    if (this.#farewell !== undefined) stream.goodbye(this.#farewell.reason)
  }

  #mountsOf(web: readonly ServedMount[]): Mounts {
    const { access, rateLimits, publicOrigin } = this.#options
    const usual = { kernelLimit: this.#kernelLimit, cors: this.#serverCors }
    return new Mounts(web, { access, rateLimits, publicOrigin, ...usual })
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
        const isOwn = served.route.auth === 'own'
        const usual = { max: this.#options.ratePerMinute, perMs: 60_000 }
        const declared = limit ?? (isOwn ? usual : undefined)
        const count = declared
          ? createRouteLimit(rateLimits, served.key, declared, readInput, isOwn)
          : this.#kernelLimit
        const entry: Entry = {
          cors: corsOf(served.route, this.#serverCors),
          limit: isOwn ? uncounted : count,
          isProbe: served.isProbe ?? false,
          provesLater: served.provesLater ?? false,
          onError: served.route.onError,
          named: { route: served.key, plugin: served.owner },
          run: prepareRoute(served, key, this.#runOptions, readInput, count),
        }
        return { key, entry }
      }),
    )
  }

  /** The client's address. The log warns, once, when a proxy makes all clients look like one. */
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
    // Dots and doubled slashes can disguise one path as another, so a path with them matches no route.
    const path = isTwisted(target.path) ? '' : target.path
    const match = this.#table.find(method, path)
    koa.state.rendersErrors = match?.entry.onError ?? errorWordsAt(path, this.#options.errors)
    if (match !== undefined) {
      const { cors, limit, run, named, isProbe, provesLater } = match.entry
      const { state } = koa
      state.route = named.route
      state.plugin = named.plugin
      if (provesLater) state.provesLater = true
      if (isProbe) {
        state.isProbe = true
        return run(koa, match.captures, target)
      }
      setCors(cors, req, res)
      refuseForeign(cors, req, this.#options.publicOrigin)
      const counted = limit(koa, match.captures, target.query)
      if (counted) await counted
      return run(koa, match.captures, target)
    }
    if (isPreflight(req)) return this.#answerPreflight(koa, path)
    const methods = this.#table.methods(path)
    if (await this.#mounts.ask(koa, path, methods.length > 0)) return
    const notYet = methods.length > 0 ? undefined : this.#options.unserved?.()
    if (notYet) throw notYet
    answerUnrouted(koa, methods)
  }

  async #answerPreflight(koa: Context, path: string): Promise<void> {
    const asked = this.#table.find(koa.get('Access-Control-Request-Method'), path)
    const isRouted = asked !== undefined || this.#table.methods(path).length > 0
    const rule = asked?.entry.cors ?? this.#mounts.ruleAt(path, isRouted) ?? this.#serverCors
    setPreflight(rule, koa.req, koa.res)
    // A path that no route owns may belong to a web module that answers preflights itself.
    if (!isRouted && (await this.#mounts.askPreflight(koa, path, isRouted))) return
    send(koa, noContent)
  }
}

/** What a caller hears of an error whose token was revoked meanwhile: that it was, and nothing else. */
async function provedFirst(koa: Context, error: unknown): Promise<unknown> {
  try {
    await proofOf(koa)?.demand()
    return error
  } catch (refusal) {
    return refusal
  }
}

/** The error of a layer that set a status and no body, with the headers that tell a client what to do about a status. */
function bareStatus({ status, res }: Context): RuntimeError {
  const { code, message } = ofStatus(status)
  const headers: Record<string, string> = {}
  for (const name of ['WWW-Authenticate', 'Retry-After'])
    if (res.hasHeader(name)) headers[name] = String(res.getHeader(name))
  return new RuntimeError(code, message, { status, headers })
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
