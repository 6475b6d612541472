import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, Log, RouteAuth, RouteContext } from '../../../plugin.ts'
import { abilityOf } from '../../../manifest/abilities.ts'
import { Trace, type TracedRoute } from '../../audit/trace.ts'
import type { AuditTrail } from '../../audit/trail.ts'
import type { Access } from './access.ts'
import { type Answer, jsonType, send, toAnswer } from '../answer/answer.ts'
import { BodyPrint, matchesPrint } from '../read/body-print.ts'
import { bodyKind, hasBody, saysNdjson, tooLarge } from '../read/body.ts'
import { clientNetwork } from '../limits/client-address.ts'
import { errorText, statusOf } from '../answer/error-body.ts'
import { Exchange, type RouteBase } from './exchange.ts'
import type { Failures } from '../answer/failure.ts'
import {
  fingerprintOf,
  type Idempotency,
  isRepeatable,
  readIdempotencyKey,
  RequestClaim,
  type RequestName,
} from '../limits/idempotency.ts'
import {
  bodyRule,
  eitherBody,
  prepareInput,
  prepareSchema,
  type ReadInput,
  toldFaults,
} from './input.ts'
import type { Places } from '../limits/places.ts'
import { checkOutput, isAsyncIterable, isForKoa, isStreamed, withTags } from './result.ts'
import { Reply } from '../answer/reply.ts'
import type { RouteKey } from './routes.ts'
import { SseStream, type SseLimits, setSseHeaders } from '../answer/sse.ts'
import { underWayAs } from '../../watchdog/under-way.ts'
import type { Target } from '../read/target.ts'

/** A route, and how its context is made of what the edge knows. */
export interface ServedRoute {
  /** `GET /notes/:id` */
  readonly key: string
  /** A plugin's name, or `the kernel`. */
  readonly owner: string
  readonly route: AnyRoute
  /** Adds `env`, `self`, `db` and the rest to the base, on it or inheriting from it. */
  context(base: RouteBase): RouteContext | Promise<RouteContext>
}

/** What every route shares. */
export interface RunOptions {
  readonly failures: Failures
  readonly log: Log
  readonly access: Access
  readonly idempotency: Idempotency | undefined
  /** Where writes leave their lines. */
  readonly audit?: AuditTrail
  readonly sse: SseLimits
  /** Where open event streams are counted, by address. */
  readonly streams?: Places
  /** Told of every stream, so that the server can end it when it closes. */
  opened(stream: SseStream): void
}

/** Runs one route for one request, from who is calling to the answer. */
export type RunRoute = (koa: Context, captures: readonly string[], target: Target) => Promise<void>

/** Prepares a route: what can be known before its first request is worked out here. */
export function prepareRoute(
  served: ServedRoute,
  key: RouteKey,
  options: RunOptions,
  readInput: ReadInput,
): RunRoute {
  const either = eitherBody(served.route)
  if (either === undefined) {
    const whole = new PreparedRoute(served, key, options, readInput)
    return (koa, captures, target) => whole.run(koa, captures, target)
  }
  const half = (kind: 'json' | 'ndjson') => {
    const route = { ...served.route, body: { kind, maxBytes: either[kind] } }
    const context = (base: RouteBase) => served.context(base)
    return new PreparedRoute(
      { ...served, route, context },
      key,
      options,
      prepareInput(key, route),
      true,
    )
  }
  const json = half('json')
  const lines = half('ndjson')
  return (koa, captures, target) => (saysNdjson(koa.req) ? lines : json).run(koa, captures, target)
}

/** One route that takes one kind of body, with everything that its requests only need to look up. */
class PreparedRoute {
  readonly #served: ServedRoute
  readonly #route: AnyRoute
  readonly #options: RunOptions
  readonly #auth: RouteAuth
  readonly #ability: string
  /** What a bearer route asks for is asked at the door, before anything of the request is read. */
  readonly #can: AnyRoute['can']
  readonly #begins: () => void
  readonly #readInput: ReadInput
  readonly #parseOutput: ((value: unknown) => unknown) | undefined
  /** How long an NDJSON body may be; undefined where the body is none. */
  readonly #lineBytes: number | undefined
  /** How many bytes of lines the handler may read. Who asks for the lines of JSON is told which type has lines. */
  readonly #readableLineBytes: number | undefined
  readonly #keys: Idempotency | undefined
  readonly #traced: TracedRoute | undefined

  constructor(
    served: ServedRoute,
    key: RouteKey,
    options: RunOptions,
    readInput: ReadInput,
    isOneOfTwo = false,
  ) {
    const { route, owner } = served
    const { kind, maxBytes } = bodyRule(route)
    const auth = route.auth ?? 'ucan'
    this.#served = served
    this.#route = route
    this.#options = options
    this.#auth = auth
    this.#ability = abilityOf(owner, key.method, route)
    this.#can = auth === 'bearer' ? undefined : route.can
    this.#begins = underWayAs(`${served.key} of ${owner}`)
    this.#readInput = readInput
    this.#parseOutput = route.output && prepareSchema(route.output)
    this.#lineBytes = kind === 'ndjson' ? maxBytes : undefined
    this.#readableLineBytes = this.#lineBytes ?? (isOneOfTwo ? 0 : undefined)
    this.#keys = key.method === 'GET' || route.idempotent ? undefined : options.idempotency
    this.#traced = options.audit && {
      trail: options.audit,
      key: served.key,
      params: key.params,
      isWrite: key.method !== 'GET' && auth !== 'public',
    }
  }

  /** From who is calling to the answer. */
  async run(koa: Context, captures: readonly string[], target: Target): Promise<void> {
    this.#begins()
    const route = this.#route
    const auth = this.#auth
    let trace: Trace | undefined
    try {
      const who =
        auth === 'public'
          ? undefined
          : await this.#options.access.authorize(
              auth,
              koa,
              this.#served.owner,
              this.#ability,
              route.own !== undefined,
            )
      const caller = who?.caller ?? koa.ip
      trace = this.#traced && new Trace(this.#traced, koa, caller, captures)
      const exchange = new Exchange(koa, caller, who?.user, this.#readableLineBytes, trace)
      koa.res.statusCode = 200
      if (who?.lacks && !(await route.own?.(await this.#served.context(exchange)))) throw who.lacks
      await (route.onFault
        ? this.#attempt(koa, exchange, captures, target)
        : this.#handle(koa, exchange, captures, target))
    } catch (thrown) {
      if (this.#traced)
        failed(this.#traced, trace, koa, captures, this.#options.failures.toError(thrown))
      throw thrown
    }
  }

  /** Handles the request; a fault of ours is answered as the route wants it. */
  async #attempt(
    koa: Context,
    exchange: Exchange,
    captures: readonly string[],
    target: Target,
  ): Promise<void> {
    const { res } = koa
    const { failures } = this.#options
    try {
      return await this.#handle(koa, exchange, captures, target)
    } catch (thrown) {
      if (res.headersSent || res.destroyed || statusOf(failures.toError(thrown)) < 500) throw thrown
      const error = failures.explain(koa, thrown)
      res.statusCode = 200
      const ctx = await this.#served.context(exchange)
      return this.#answer(koa, exchange, await this.#route.onFault?.(error, ctx))
    }
  }

  async #handle(
    koa: Context,
    exchange: Exchange,
    captures: readonly string[],
    target: Target,
  ): Promise<void> {
    const { req } = koa
    const route = this.#route
    let incoming
    try {
      if (this.#lineBytes !== undefined) refuseLines(req, this.#lineBytes)
      incoming = await this.#readInput(req, captures, target.query)
    } catch (error) {
      if (!route.onInvalid || !(error instanceof RuntimeError) || koa.res.destroyed) throw error
      const ctx = await this.#served.context(exchange)
      return this.#answer(koa, exchange, await route.onInvalid(toldFaults(error), ctx))
    }
    const made = this.#served.context(exchange)
    const ctx = made instanceof Promise ? await made : made
    const { input, raw } = incoming
    if (this.#can !== undefined) await demand(this.#can, input, ctx, this.#options.access)
    const keys = this.#keys
    const name = keys && readIdempotencyKey(req.headers['idempotency-key'])
    if (keys === undefined || name === undefined)
      return this.#answer(koa, exchange, await route.run(input, ctx))
    const request = { caller: exchange.caller, route: this.#served.key, key: name }
    const print = fingerprintOf(target, raw)
    await this.#handleOnce(koa, exchange, keys, request, print, () => route.run(input, ctx))
  }

  /** Runs a handler unless its request was answered before; then that answer goes out again. */
  async #handleOnce(
    koa: Context,
    exchange: Exchange,
    keys: Idempotency,
    request: RequestName,
    print: string,
    handle: () => unknown,
  ): Promise<void> {
    const hasLines = this.#lineBytes !== undefined
    if (hasLines) exchange.print = new BodyPrint()
    const begun = await keys.begin(
      request,
      print,
      hasLines
        ? async (kept) => kept.startsWith(print) && matchesPrint(koa.req, kept.slice(print.length))
        : undefined,
    )
    if (begun instanceof RequestClaim) return this.#runOnce(koa, exchange, begun, print, handle)
    koa.res.setHeader('Idempotency-Replayed', 'true')
    if (exchange.trace?.endsHere()) await exchange.trace.replayed(begun.status)
    send(koa, begun)
  }

  /** Runs a handler under a claim. The answer is stored before it is sent, so that no repeat misses it. */
  async #runOnce(
    koa: Context,
    exchange: Exchange,
    claim: RequestClaim,
    fingerprint: string,
    handle: () => unknown,
  ): Promise<void> {
    const { log, failures } = this.#options
    const settle = (outcome: Answer | undefined) =>
      (outcome && isRepeatable(outcome.status)
        ? claim.keep(outcome, exchange.print && `${fingerprint}${exchange.print}`)
        : claim.release()
      ).catch((error: unknown) =>
        log.error({ err: error, requestId: exchange.requestId }, 'idempotent outcome not stored'),
      )
    let value: unknown
    let made: Answer | undefined
    try {
      value = await handle()
      // What is streamed cannot be repeated, so it is not remembered.
      if (!isStreamed(value, koa)) made = withTags(koa, await this.#render(koa, value))
      // Before the answer is kept for repeats: they find the line there already.
      if (made) await tell(koa, exchange, value, made)
    } catch (thrown) {
      const error = failures.toError(thrown)
      const body = errorText(error, exchange.requestId)
      await settle({ status: statusOf(error), type: jsonType, body, headers: error.headers })
      throw error
    }
    await settle(made)
    if (made === undefined) return this.#answer(koa, exchange, value)
    send(koa, made)
  }

  async #answer(koa: Context, exchange: Exchange, value: unknown): Promise<void> {
    if (isStreamed(value, koa)) {
      await tell(koa, exchange)
      if (isForKoa(value)) koa.body = value
      else if (isAsyncIterable(value)) await stream(koa, exchange, value, this.#options)
      return
    }
    const made = await this.#render(koa, value)
    // No needless turn of the event loop: most answers have no line to wait for.
    const told = tell(koa, exchange, value, made)
    if (told) await told
    send(koa, made)
  }

  /** A handler's value as an answer, passed through the route's `output` where it has one. */
  async #render({ res }: Context, value: unknown): Promise<Answer> {
    const parseOutput = this.#parseOutput
    if (parseOutput === undefined) return toAnswer(value, res.statusCode)
    if (!(value instanceof Reply))
      return toAnswer(await checkOutput(parseOutput, value), res.statusCode)
    const { status, type, body, headers } = value
    const checked = type === 'text' ? body : await checkOutput(parseOutput, body)
    return toAnswer(new Reply(status, type, checked, headers), status)
  }
}

/** Leaves the line about an answer that is about to go out. */
function tell({ res }: Context, { trace }: Exchange, value?: unknown, made?: Answer) {
  if (!trace?.endsHere()) return undefined
  const location = made?.headers?.Location ?? res.getHeader('Location')
  return trace.answered({
    status: made?.status ?? res.statusCode,
    location: typeof location === 'string' ? location : undefined,
    body: value instanceof Reply ? value.body : value,
  })
}

/** Leaves the line about a call that failed. Whoever is known but may not write has one; a stranger, who is nobody, none. */
function failed(
  route: TracedRoute,
  trace: Trace | undefined,
  koa: Context,
  captures: readonly string[],
  error: RuntimeError,
): void {
  const { caller } = koa.state
  if (trace === undefined && typeof caller === 'string' && error.status === 403)
    trace = new Trace(route, koa, caller, captures)
  if (trace?.endsHere()) trace.failed(error)
}

/** Refuses an NDJSON body by its headers, before the handler runs. */
function refuseLines(req: IncomingMessage, maxBytes: number): void {
  if (!hasBody(req)) return
  bodyKind(req, ['ndjson'])
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
}

/** A user must hold the route's capability. Who comes with a key instead of a name holds them all. */
async function demand(
  { can, with: resourceOf }: NonNullable<AnyRoute['can']>,
  input: unknown,
  ctx: RouteContext,
  access: Access,
): Promise<void> {
  const { user } = ctx
  if (user === undefined) return
  await access.demand(user, can, resourceOf === undefined ? user.did : resourceOf(input, ctx))
}

async function stream(
  koa: Context,
  exchange: Exchange,
  source: AsyncIterable<unknown>,
  { failures, log, opened, sse, streams }: RunOptions,
): Promise<void> {
  const { method, res } = koa
  if (method === 'HEAD') {
    koa.respond = false
    setSseHeaders(res)
    res.end()
    return leave(source)
  }
  let giveBack: (() => void) | undefined
  try {
    giveBack = streams?.take(clientNetwork(koa.ip))
  } catch (error) {
    await leave(source)
    throw error
  }
  koa.respond = false
  const { requestId } = exchange
  const stream = new SseStream(source, {
    res,
    limits: sse,
    abort: (reason) => exchange.abort(reason),
    renderError: (thrown) => errorText(failures.explain(koa, thrown), requestId),
    lateFailure: (error) => log.warn({ err: error, requestId }, 'a stream failed to clean up'),
  })
  opened(stream)
  try {
    await stream.run()
  } finally {
    giveBack?.()
  }
}

/** A generator that never began has nothing to clean up, but a feed may. */
async function leave(source: AsyncIterable<unknown>): Promise<void> {
  if ('return' in source && typeof source.return === 'function') await source.return()
}
