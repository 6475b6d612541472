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
import { createMounts, type ServedMount } from './routes/mounts.ts'
import type { RateLimits } from './limits/rate-limit.ts'
import { once, prepareInput } from './routes/input.ts'
import { createRouteTable, readRouteKey } from './routes/routes.ts'
import { type CountRequest, createRouteLimit } from './limits/route-limit.ts'
import {
  prepareRoute,
  type RunOptions,
  type RunRoute,
  type ServedRoute,
} from './routes/run-route.ts'
import type { SseStream } from './answer/sse.ts'
import { isTwisted, type Target } from './read/target.ts'

export interface ServeOptions extends Omit<RunOptions, 'opened'> {
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

export interface Serve {
  /** Answers one request, whatever it is. Never rejects. */
  serve(koa: Context): Promise<void>
  /** Serves these routes, and web modules where given, from the next request on. */
  reroute(routes: readonly ServedRoute[], web?: readonly ServedMount[]): void
  /** Checks and counts what asks for no route, such as an upgrade; throws when it may not go on. */
  admit(koa: Context): Promise<void>
  /** Tells every open stream that the server closes. */
  goodbye(reason: unknown): void
}

interface Entry {
  readonly cors: Cors
  readonly limit: CountRequest
  readonly run: RunRoute
}

const answeringPreflights = (web: readonly ServedMount[]) =>
  web.filter(({ handler }) => handler.answersPreflights)

const noContent = { status: 204, type: '', body: '' }

/** The way of a request to whoever answers it: head, target, CORS, limit, then the route or a web module. */
export function createServe(options: ServeOptions): Serve {
  const { fail, publicOrigin, rateLimits, readMs, trustProxy } = options
  const serverCors = readCors(options.cors)
  const kernelLimit = rateLimits.limit('kernel', options.ratePerMinute, 60_000)
  let serveMounts = createMounts(options.web, options.access)
  let servePreflights = createMounts(answeringPreflights(options.web), options.access)
  const streams = new Set<SseStream>()
  let toldOfProxy = trustProxy
  let farewell: { readonly reason: unknown } | undefined

  const runOptions: RunOptions = {
    ...options,
    opened(stream) {
      streams.add(stream)
      const forget = () => streams.delete(stream)
      stream.done.then(forget, forget)
      if (farewell !== undefined) stream.goodbye(farewell.reason)
    },
  }
  const compile = (routes: readonly ServedRoute[]) =>
    createRouteTable(
      routes.map((served) => {
        const key = readRouteKey(served.key)
        if (typeof key === 'string')
          throw new RuntimeError('ROUTE_INVALID', `The route "${served.key}" is malformed: ${key}.`)
        const { limit } = served.route
        const prepared = prepareInput(key, served.route)
        const readInput = limit?.by ? once(prepared) : prepared
        const entry: Entry = {
          cors: corsOf(served.route, serverCors),
          limit: limit ? createRouteLimit(rateLimits, served.key, limit, readInput) : kernelLimit,
          run: prepareRoute(served, key, runOptions, readInput),
        }
        return { key, entry }
      }),
    )
  let table = compile(options.routes)

  /** The client's address. Whoever runs the server hears it when a proxy makes all clients look like one. */
  function addressOf(req: IncomingMessage): string {
    const header = toldOfProxy ? undefined : namesClient(req.headers)
    if (header !== undefined) {
      toldOfProxy = true
      options.log.warn(
        `A request carries the header ${header} while TRUST_PROXY_ENABLED is off. If a proxy stands before this server, ` +
          'all its users count as one address: set TRUST_PROXY_ENABLED=true behind a proxy that sets X-Forwarded-For.',
      )
    }
    return clientAddress(req, trustProxy)
  }

  async function dispatch(koa: Context, target: Target): Promise<void> {
    const { req, res, method } = koa
    // Dots and doubled slashes are how one path is dressed up as another: they reach nothing.
    const path = isTwisted(target.path) ? '' : target.path
    const match = table.find(method, path)
    if (match !== undefined) {
      const { cors, limit, run } = match.entry
      setCors(cors, req, res)
      refuseForeign(cors, req, publicOrigin)
      await limit(koa, match.captures, target.query)
      return run(koa, match.captures, target)
    }
    if (isPreflight(req)) {
      const asked = table.find(koa.get('Access-Control-Request-Method'), path)
      setPreflight(asked?.entry.cors ?? serverCors, req, res)
      // What no route owns may belong to a web module with a rule of its own.
      const routed = asked !== undefined || table.methods(path).length > 0
      if (!routed && path !== '' && (await servePreflights(koa, path, routed))) return
      return send(koa, noContent)
    }
    setCors(serverCors, req, res)
    await kernelLimit(koa)
    const methods = table.methods(path)
    if (path !== '' && (await serveMounts(koa, path, methods.length > 0))) return
    const allow = [...methods, 'OPTIONS'].join(', ')
    if (method === 'OPTIONS') {
      if (methods.length > 0) res.setHeader('Allow', allow)
      return send(koa, noContent)
    }
    if (methods.length === 0)
      throw new RuntimeError('NOT_FOUND', 'Nothing answers at this address.')
    throw new RuntimeError(
      'METHOD_NOT_ALLOWED',
      `${method} is not served at this address, only ${methods.join(', ')}.`,
      { headers: { Allow: allow } },
    )
  }

  return {
    async serve(koa) {
      const { req, res } = koa
      const requestId = requestIdOf(req)
      koa.state.requestId = requestId
      res.setHeader('X-Request-Id', requestId)
      res.setHeader('X-Content-Type-Options', 'nosniff')
      if (farewell !== undefined) res.shouldKeepAlive = false
      try {
        koa.request.ip = addressOf(req)
        const target = readHead(req)
        req.url = target.url
        await dispatch(koa, target)
      } catch (error) {
        fail(koa, error)
      }
      // Most answers are in the kernel's hands by now. The rest waits in ours for a reader.
      if (koa.respond !== false || (res.writableEnded && res.writableLength > 0))
        res.setTimeout(readMs, () => res.destroy())
    },
    async admit(koa) {
      koa.state.requestId = requestIdOf(koa.req)
      koa.request.ip = addressOf(koa.req)
      readHead(koa.req)
      await kernelLimit(koa)
    },
    reroute(routes, web) {
      table = compile(routes)
      if (web === undefined) return
      serveMounts = createMounts(web, options.access)
      servePreflights = createMounts(answeringPreflights(web), options.access)
    },
    goodbye(reason) {
      farewell = { reason }
      for (const stream of streams) stream.goodbye(reason)
    },
  }
}
