import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, Log, RouteAuth, RouteContext } from '../../../plugin.ts'
import { abilityOf } from '../../../manifest/abilities.ts'
import { Trace, type TracedRoute } from '../../audit/trace.ts'
import type { AuditTrail } from '../../audit/trail.ts'
import { isPersonalKey } from '../../base/log.ts'
import type { Access, RouteKinds } from './access.ts'
import { type Answer, bodyless, send, toAnswer } from '../answer/answer.ts'
import { BodyPrint, matchesPrint } from '../read/body-print.ts'
import { bodyKind, hasBody, saysNdjson, tooLarge } from '../read/body.ts'
import { statusOf } from '../answer/error-body.ts'
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
  usualBodyBytes,
} from './input.ts'
import { checkOutput, withTags } from './result.ts'
import { Reply } from '../answer/reply.ts'
import { askPlugin, ownRequest, saysOwn } from './own-auth.ts'
import { mayBeLarger } from '../limits/arrivals.ts'
import type { CountRequest } from '../limits/route-limit.ts'
import type { RouteKey } from './routes.ts'
import { isStreamed, sendStreamed, type StreamOptions } from './streamed.ts'
import { underWayAs } from '../../watchdog/under-way.ts'
import type { Target } from '../read/target.ts'

/** A route, and the function that makes its context from what the edge knows. */
export interface ServedRoute extends RouteKinds {
  /** `GET /notes/:id` */
  readonly key: string
  /** A plugin's name, or `the kernel`. */
  readonly owner: string
  readonly route: AnyRoute
  /** Adds `env`, `self`, `db` and the rest to the base, on it or inheriting from it. */
  context(base: RouteBase): RouteContext | Promise<RouteContext>
}

/** What every route shares. */
export interface RunOptions extends StreamOptions {
  readonly access: Access
  readonly idempotency: Idempotency | undefined
  /** Where writes leave their audit lines. */
  readonly audit?: AuditTrail
}

/** Serves one request by one route, from who is calling to the answer. */
export type RouteRunner = (
  koa: Context,
  captures: readonly string[],
  target: Target,
) => Promise<void>

/** Prepares a route: works out what can be known before its first request. */
export function prepareRoute(
  served: ServedRoute,
  key: RouteKey,
  options: RunOptions,
  readInput: ReadInput,
  count: CountRequest,
): RouteRunner {
  const either = eitherBody(served.route)
  if (either === undefined) {
    const whole = new PreparedRoute(served, key, options, readInput, count)
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
      count,
      true,
    )
  }
  const json = half('json')
  const lines = half('ndjson')
  return (koa, captures, target) => (saysNdjson(koa.req) ? lines : json).run(koa, captures, target)
}

const noBytes = Buffer.alloc(0)

/** One route that takes one kind of body, with everything that its requests only need to look up. */
class PreparedRoute {
  readonly #served: ServedRoute
  readonly #route: AnyRoute
  readonly #options: RunOptions
  readonly #auth: RouteAuth
  readonly #ability: string
  /** The capability to ask for after reading. A bearer route's is asked for before anything of the request is read. */
  readonly #can: AnyRoute['can']
  readonly #begins: () => void
  readonly #readInput: ReadInput
  /** Counts a request by the route's limit; asked here by a route with a check of its own. */
  readonly #count: CountRequest
  readonly #parseOutput: ((value: unknown) => unknown) | undefined
  /** Whether a body may be larger than usual, and so is held to a pace. */
  readonly #takesLarger: boolean
  /** How long an NDJSON body may be; undefined where the body is none. */
  readonly #lineBytes: number | undefined
  /** How many bytes of lines the handler may read. A handler that reads the lines of a JSON body gets an error that names NDJSON. */
  readonly #readableLineBytes: number | undefined
  readonly #keys: Idempotency | undefined
  readonly #traced: TracedRoute | undefined

  constructor(
    served: ServedRoute,
    key: RouteKey,
    options: RunOptions,
    readInput: ReadInput,
    count: CountRequest,
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
    this.#count = count
    this.#parseOutput = route.output && prepareSchema(route.output)
    this.#takesLarger = maxBytes > usualBodyBytes
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
    const auth = this.#authFor(koa)
    let trace: Trace | undefined
    if (auth !== 'public') koa.state.who = 'unknown'
    try {
      const who =
        auth === 'public'
          ? undefined
          : auth === 'own'
            ? await this.#byPlugin(koa, captures, target)
            : await this.#options.access.authorize(
                auth,
                koa,
                this.#served.owner,
                this.#ability,
                route.own !== undefined,
              )
      this.#options.access.demandProof?.(who?.user, route)
      const caller = who?.caller ?? koa.ip
      if (who) koa.state.who = auth === 'own' ? 'own' : caller
      trace = this.#traced && new Trace(this.#traced, koa, caller, captures)
      const exchange = new Exchange(koa, caller, who?.user, this.#readableLineBytes, trace)
      // Only now: whoever may not call holds the connection for the usual time.
      if (this.#takesLarger) mayBeLarger(koa.req)
      koa.res.statusCode = 200
      if (who?.lacks && !(await saysOwn(this.#served, exchange))) throw who.lacks
      await (route.onFault
        ? this.#attempt(koa, exchange, captures, target)
        : this.#handle(koa, exchange, captures, target))
    } catch (thrown) {
      if (this.#traced)
        failed(this.#traced, trace, koa, captures, this.#options.failures.toError(thrown))
      throw thrown
    }
  }

  /** Some routes of users are the operator's too, who comes with a key in place of a token. */
  #authFor({ headers: { authorization, 'x-auth-type': authType } }: Context): RouteAuth {
    const hasKey = authorization !== undefined && authType === undefined
    const isKey = this.#served.isOperatorsToo && hasKey
    const isPersons = hasKey && isPersonalKey(authorization.slice('Bearer '.length).trim())
    return isKey && !isPersons ? 'operator' : this.#auth
  }

  /** Whom the plugin's own check lets in. What a forged request costs is its address's, and no limit of the route's. */
  async #byPlugin(koa: Context, captures: readonly string[], target: Target) {
    const { access } = this.#options
    const { owner } = this.#served
    const who = await access.byPlugin(koa, owner, async () => {
      const request = await ownRequest(koa, this.#route, target)
      const ctx = await this.#served.context(new Exchange(koa, koa.ip, undefined))
      return askPlugin(this.#route, request, ctx, owner)
    })
    await this.#count(koa, captures, target.query)
    return { ...who, lacks: undefined }
  }

  /** Handles the request; a route with `onFault` answers a fault of the server itself. */
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
    if (route.raw) exchange.keepRaw(raw ?? noBytes)
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

  /** Runs a handler under a claim. The answer is stored before it goes out, so that no repeat misses the answer. */
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
      // A stream is not kept: a route whose streams can be read again finds them by the key itself.
      if (!isStreamed(value, koa)) made = withTags(koa, await this.#render(koa, value))
      // Before the answer is kept for repeats, so that a repeat finds the line there already.
      if (made) await tell(koa, exchange, value, made)
    } catch (thrown) {
      const error = failures.toError(thrown)
      // The key belongs to another request, which may be repeated yet.
      const isOther = error.code === 'IDEMPOTENCY_MISMATCH'
      await settle(isOther ? undefined : failures.toAnswer(koa, error))
      throw error
    }
    await settle(made)
    if (made === undefined) return this.#answer(koa, exchange, value)
    send(koa, made)
  }

  async #answer(koa: Context, exchange: Exchange, value: unknown): Promise<void> {
    if (isStreamed(value, koa)) {
      await tell(koa, exchange)
      await sendStreamed(koa, exchange, value, this.#options)
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
    // An answer without a body has nothing that could differ from the schema.
    const isJson = type === undefined && !bodyless.has(status)
    const checked = isJson ? await checkOutput(parseOutput, body) : body
    return toAnswer(new Reply(status, checked, type, headers), status)
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

/** Leaves the line about a call that failed. A known caller without the right gets a line too, a stranger gets none. */
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

/** Throws unless the user holds the route's capability. A caller with a key instead of a DID holds all. */
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
