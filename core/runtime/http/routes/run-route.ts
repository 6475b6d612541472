import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, Log, RouteContext } from '../../../plugin.ts'
import { abilityOf } from '../../../manifest/abilities.ts'
import { Trace, type TracedRoute } from '../../audit/trace.ts'
import type { AuditTrail } from '../../audit/trail.ts'
import type { Access } from './access.ts'
import { type Answer, isAnswered, jsonType, send, toAnswer } from '../answer/answer.ts'
import { BodyPrint, matchesPrint } from '../read/body-print.ts'
import { bodyKind, hasBody, saysNdjson, tooLarge } from '../read/body.ts'
import { clientNetwork } from '../limits/client-address.ts'
import { errorText, statusOf } from '../answer/error-body.ts'
import { Exchange, type RouteBase } from './exchange.ts'
import type { Failure } from '../answer/failure.ts'
import {
  type Claim,
  fingerprintOf,
  type Idempotency,
  isRepeatable,
  readIdempotencyKey,
} from '../limits/idempotency.ts'
import {
  bodyRule,
  eitherBody,
  faultsOf,
  prepareInput,
  prepareSchema,
  type ReadInput,
} from './input.ts'
import type { Places } from '../limits/places.ts'
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
export interface RunOptions extends Failure {
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
  isOneOfTwo = false,
): RunRoute {
  const { route, owner } = served
  const either = eitherBody(route)
  if (either) {
    const [json, lines] = (['json', 'ndjson'] as const).map((kind) => {
      const body = { kind, maxBytes: either[kind] }
      const one: ServedRoute = {
        ...served,
        route: { ...route, body },
        context: (base) => served.context(base),
      }
      return prepareRoute(one, key, options, prepareInput(key, one.route), true)
    })
    return (koa, ...rest) => (saysNdjson(koa.req) ? lines! : json!)(koa, ...rest)
  }
  const { access, idempotency } = options
  const { kind, maxBytes } = bodyRule(route)
  const auth = route.auth ?? 'ucan'
  const begins = underWayAs(`${served.key} of ${owner}`)
  const ability = abilityOf(owner, key.method, route)
  // What a bearer route asks for is asked at the door, before anything of the request is read.
  const can = auth === 'bearer' ? undefined : route.can
  const parseOutput = route.output && prepareSchema(route.output)
  const lineBytes = kind === 'ndjson' ? maxBytes : undefined
  const keys = key.method === 'GET' || route.idempotent ? undefined : idempotency
  const traced: TracedRoute | undefined = options.audit && {
    trail: options.audit,
    key: served.key,
    params: key.params,
    isWrite: key.method !== 'GET' && auth !== 'public',
  }

  const work = route.onFault ? attempt : handle

  async function run(koa: Context, captures: readonly string[], target: Target): Promise<void> {
    begins()
    let trace: Trace | undefined
    try {
      const who =
        auth === 'public'
          ? undefined
          : await access.authorize(auth, koa, owner, ability, route.own !== undefined)
      const caller = who?.caller ?? koa.ip
      // Who asks for the lines of a body that came as JSON is told which type has lines.
      const limit = lineBytes ?? (isOneOfTwo ? 0 : undefined)
      trace = traced && new Trace(traced, koa, caller, captures)
      const exchange = new Exchange(koa, caller, who?.user, limit, trace)
      koa.res.statusCode = 200
      if (who?.lacks && !(await route.own?.(await served.context(exchange)))) throw who.lacks
      await work(koa, exchange, captures, target)
    } catch (thrown) {
      if (traced) failed(traced, trace, koa, captures, options.toError(thrown))
      throw thrown
    }
  }

  /** Handles the request; a fault of ours is answered as the route wants it. */
  async function attempt(
    koa: Context,
    exchange: Exchange,
    captures: readonly string[],
    target: Target,
  ): Promise<void> {
    const { res } = koa
    try {
      return await handle(koa, exchange, captures, target)
    } catch (thrown) {
      if (res.headersSent || res.destroyed || statusOf(options.toError(thrown)) < 500) throw thrown
      const error = options.explain(koa, thrown)
      res.statusCode = 200
      const ctx = await served.context(exchange)
      return answer(koa, exchange, await route.onFault?.(error, ctx))
    }
  }

  async function handle(
    koa: Context,
    exchange: Exchange,
    captures: readonly string[],
    target: Target,
  ): Promise<void> {
    const { req, res } = koa
    let incoming
    try {
      if (lineBytes !== undefined) refuseLines(req, lineBytes)
      incoming = await readInput(req, captures, target.query)
    } catch (error) {
      if (!route.onInvalid || !(error instanceof RuntimeError) || res.destroyed) throw error
      const ctx = await served.context(exchange)
      return answer(koa, exchange, await route.onInvalid(faultsOf(error), ctx))
    }
    const made = served.context(exchange)
    const ctx = made instanceof Promise ? await made : made
    const { input, raw } = incoming
    if (can !== undefined) await demand(can, input, ctx, access)
    const name = keys && readIdempotencyKey(req.headers['idempotency-key'])
    if (keys === undefined || name === undefined)
      return answer(koa, exchange, await route.run(input, ctx))

    const request = { caller: exchange.caller, route: served.key, key: name }
    const print = fingerprintOf(target, raw)
    if (lineBytes !== undefined) exchange.print = new BodyPrint()
    const begun = await keys.begin(
      request,
      print,
      lineBytes === undefined
        ? undefined
        : async (kept) => kept.startsWith(print) && matchesPrint(req, kept.slice(print.length)),
    )
    if ('keep' in begun) return runOnce(koa, exchange, begun, print, () => route.run(input, ctx))
    res.setHeader('Idempotency-Replayed', 'true')
    if (exchange.trace?.endsHere()) await exchange.trace.replayed(begun.status)
    send(koa, begun)
  }

  /** Runs a handler under a claim. The answer is stored before it is sent, so that no repeat misses it. */
  async function runOnce(
    koa: Context,
    exchange: Exchange,
    claim: Claim,
    fingerprint: string,
    handle: () => unknown,
  ) {
    const { log, toError } = options
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
      if (!isAsyncIterable(value) && !isForKoa(value) && !(value === undefined && isAnswered(koa)))
        made = withTags(koa, await render(koa, value))
      // Before the answer is kept for repeats: they find the line there already.
      if (made) await tell(koa, exchange, value, made)
    } catch (thrown) {
      const error = toError(thrown)
      const body = errorText(error, exchange.requestId)
      await settle({ status: statusOf(error), type: jsonType, body, headers: error.headers })
      throw error
    }
    await settle(made)
    if (made === undefined) return answer(koa, exchange, value)
    send(koa, made)
  }

  async function answer(koa: Context, exchange: Exchange, value: unknown): Promise<void> {
    if (isForKoa(value) || isAsyncIterable(value) || (value === undefined && isAnswered(koa))) {
      await tell(koa, exchange)
      if (isForKoa(value)) koa.body = value
      else if (isAsyncIterable(value)) await stream(koa, exchange, value, options)
      return
    }
    const made = await render(koa, value)
    // No needless turn of the event loop: most answers have no line to wait for.
    const told = tell(koa, exchange, value, made)
    if (told) await told
    send(koa, made)
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

  /** A handler's value as an answer, passed through the route's `output` where it has one. */
  async function render({ res }: Context, value: unknown): Promise<Answer> {
    if (parseOutput === undefined) return toAnswer(value, res.statusCode)
    if (!(value instanceof Reply))
      return toAnswer(await checkOutput(parseOutput, value), res.statusCode)
    const { status, type, body, headers } = value
    const checked = type === 'text' ? body : await checkOutput(parseOutput, body)
    return toAnswer(new Reply(status, type, checked, headers), status)
  }

  return run
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

async function checkOutput(parse: (value: unknown) => unknown, value: unknown): Promise<unknown> {
  try {
    return await parse(value)
  } catch (cause) {
    // The caller did nothing wrong, and what we hold is not theirs to see: the log has the faults.
    const { details: faults } = cause instanceof RuntimeError ? cause : { details: undefined }
    const error = new Error('A route returned what its output schema does not allow.', { cause })
    throw Object.assign(error, { faults })
  }
}

async function stream(
  koa: Context,
  exchange: Exchange,
  source: AsyncIterable<unknown>,
  { explain, log, opened, sse, streams }: RunOptions,
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
    renderError: (thrown) => errorText(explain(koa, thrown), requestId),
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

/** What Koa sends as it is: bytes and streams of bytes. */
function isForKoa(value: unknown): boolean {
  return (
    value instanceof Readable ||
    value instanceof ReadableStream ||
    value instanceof Blob ||
    Buffer.isBuffer(value)
  )
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

/** A stored answer repeats the headers by which a client goes on. */
function withTags({ res }: Context, answer: Answer): Answer {
  const headers: Record<string, string> = { ...answer.headers }
  for (const name of ['ETag', 'Location']) {
    const value = res.getHeader(name)
    if (typeof value === 'string') headers[name] = value
  }
  const type = res.getHeader('Content-Type')
  return { ...answer, headers, type: typeof type === 'string' ? type : answer.type }
}
