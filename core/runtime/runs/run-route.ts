import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { Context } from 'koa'
import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, Log, RouteContext } from '../../plugin.ts'
import type { Access } from '../http/access.ts'
import { type Answer, isAnswered, jsonType, send, toAnswer } from '../http/answer.ts'
import { bodyKind, hasBody, tooLarge } from '../http/body.ts'
import { errorText, statusOf } from '../http/error-body.ts'
import { Exchange, type RouteBase } from '../http/exchange.ts'
import type { Failure } from '../http/failure.ts'
import {
  type Claim,
  fingerprintOf,
  type Idempotency,
  isRepeatable,
  readIdempotencyKey,
} from '../http/idempotency.ts'
import { bodyRule, faultsOf, prepareInput, prepareSchema } from '../http/input.ts'
import { Reply } from '../http/reply.ts'
import type { RouteKey } from '../http/routes.ts'
import { SseStream, type SseLimits, setSseHeaders } from '../http/sse.ts'
import type { Target } from '../http/target.ts'

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
  readonly sse: SseLimits
  /** Told of every stream, so that the server can end it when it closes. */
  opened(stream: SseStream): void
}

/** Runs one route for one request, from who is calling to the answer. */
export type RunRoute = (koa: Context, captures: readonly string[], target: Target) => Promise<void>

/** Prepares a route: what can be known before its first request is worked out here. */
export function prepareRoute(served: ServedRoute, key: RouteKey, options: RunOptions): RunRoute {
  const { route, owner } = served
  const { access, idempotency } = options
  const { kind, maxBytes } = bodyRule(route)
  const auth = route.auth ?? 'ucan'
  const readInput = prepareInput(key, route)
  const parseOutput = route.output && prepareSchema(route.output)
  const lineBytes = kind === 'ndjson' ? maxBytes : undefined
  const keys = key.method === 'GET' || lineBytes !== undefined ? undefined : idempotency

  async function run(koa: Context, captures: readonly string[], target: Target): Promise<void> {
    const { res } = koa
    const who = auth === 'public' ? undefined : await access.authorize(auth, koa, owner)
    const exchange = new Exchange(koa, who?.caller ?? koa.ip, who?.user, lineBytes)
    res.statusCode = 200
    if (route.onFault === undefined) return handle(koa, exchange, captures, target)
    try {
      return await handle(koa, exchange, captures, target)
    } catch (thrown) {
      if (res.headersSent || res.destroyed || statusOf(options.toError(thrown)) < 500) throw thrown
      const error = options.explain(koa, thrown)
      res.statusCode = 200
      const ctx = await served.context(exchange)
      return answer(koa, exchange, await route.onFault(error, ctx))
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
    if (route.can !== undefined) demand(route.can, input, ctx)
    const name = keys && readIdempotencyKey(req.headers['idempotency-key'])
    if (keys === undefined || name === undefined)
      return answer(koa, exchange, await route.run(input, ctx))

    const request = { caller: exchange.caller, route: served.key, key: name }
    const begun = await keys.begin(request, fingerprintOf(target, raw))
    if ('keep' in begun) return runOnce(koa, exchange, begun, () => route.run(input, ctx))
    res.setHeader('Idempotency-Replayed', 'true')
    send(koa, begun)
  }

  /** Runs a handler under a claim. The answer is stored before it is sent, so that no repeat misses it. */
  async function runOnce(koa: Context, exchange: Exchange, claim: Claim, handle: () => unknown) {
    const { log, toError } = options
    const settle = (outcome: Answer | undefined) =>
      (outcome && isRepeatable(outcome.status) ? claim.keep(outcome) : claim.release()).catch(
        (error: unknown) =>
          log.error({ err: error, requestId: exchange.requestId }, 'idempotent outcome not stored'),
      )
    let value: unknown
    let made: Answer | undefined
    try {
      value = await handle()
      // What is streamed cannot be repeated, so it is not remembered.
      if (!isAsyncIterable(value) && !isForKoa(value) && !(value === undefined && isAnswered(koa)))
        made = withTags(koa, await render(koa, value))
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
    if (value === undefined && isAnswered(koa)) return
    if (isForKoa(value)) koa.body = value
    else if (isAsyncIterable(value)) await stream(koa, exchange, value, options)
    else send(koa, await render(koa, value))
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

/** Refuses an NDJSON body by its headers, before the handler runs. */
function refuseLines(req: IncomingMessage, maxBytes: number): void {
  if (!hasBody(req)) return
  bodyKind(req, ['ndjson'])
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
}

/** A user must hold the route's capability. Who comes with a key instead of a name holds them all. */
function demand(
  { can, with: resourceOf }: NonNullable<AnyRoute['can']>,
  input: unknown,
  ctx: RouteContext,
): void {
  const { user } = ctx
  if (user === undefined) return
  const resource = resourceOf === undefined ? user.did : resourceOf(input, ctx)
  if (user.can(can, resource)) return
  throw new RuntimeError('FORBIDDEN', `This needs the capability "${can}".`, {
    details: { causes: user.denial(can, resource) },
  })
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
  { explain, log, opened, sse }: RunOptions,
): Promise<void> {
  const { method, res } = koa
  koa.respond = false
  if (method === 'HEAD') {
    setSseHeaders(res)
    res.end()
    // A generator that never began has nothing to clean up, but a feed may.
    if ('return' in source && typeof source.return === 'function') await source.return()
    return
  }
  const { requestId } = exchange
  const stream = new SseStream(source, {
    res,
    limits: sse,
    abort: (reason) => exchange.abort(reason),
    renderError: (thrown) => errorText(explain(koa, thrown), requestId),
    lateFailure: (error) => log.warn({ err: error, requestId }, 'a stream failed to clean up'),
  })
  opened(stream)
  await stream.run()
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
