import type { Context } from 'koa'
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Log, WebModule } from '#core'
import type { Catalogue } from '../operations/catalogue.ts'
import { createBrowserRule } from './browsers.ts'
import { bundledRegistry } from '../descriptors/descriptors.ts'
import { createErrorBody, type ErrorAnswer } from './error-body.ts'
import type { Gate } from './gate.ts'
import type { Dialect } from '../json/writer.ts'
import {
  deadlineOf,
  headersFrom,
  metadataFrom,
  metadataPrefix,
  pinnedHeight,
  withoutTrace,
} from './metadata.ts'
import { describeGateway } from '../openapi.ts'
import type { Operation, Operations } from '../operations/operations.ts'
import { createPrefixes } from './prefixes.ts'
import { readJson } from './request-body.ts'
import { SharedCalls } from './shared-calls.ts'
import { CallError, grpc } from '../statuses.ts'
import { formFor, ndjsonType, sendStream } from './streams.ts'
import type { Call, Metadata, Transport } from '../upstream/transport.ts'

export interface GatewayOptions {
  readonly catalogue: Catalogue
  readonly transport: Transport
  readonly upstream: string
  readonly dialect: Dialect
  readonly gate: Gate
  readonly corsOrigins: readonly string[]
  /** Undefined: what the annotations share. */
  readonly prefix: string | undefined
  readonly legacyPrefixes: readonly string[]
  readonly deadlineMs: number
  /** Whether a text holds what authenticates at this server. */
  readonly holdsCredential: (text: string) => boolean
  readonly log: Log
}

interface Answered {
  readonly json: string
  readonly metadata: Metadata
}

const jsonType = 'application/json; charset=utf-8'
const yearSeconds = 31_536_000
const complaintMs = 1000

/** The web module at '/': what no route of the runtime owns is looked up among the annotations. */
export function createGateway(options: GatewayOptions) {
  const { catalogue, transport, dialect, log } = options
  const { admit, gated, isOwn } = options.gate
  const isSecret = (name: string, value: string) =>
    isOwn(name, value) || options.holdsCredential(value)
  const shared = new SharedCalls<Answered>()
  const errorBody = createErrorBody(options.upstream)
  const browsers = createBrowserRule(options.corsOrigins)
  /** Methods that the upstream answered UNIMPLEMENTED to, as far as anybody asked. */
  const unimplemented = new Set<string>()

  const prefixesOf = perOperations((operations) =>
    createPrefixes(options.prefix ?? operations.commonPrefix, options.legacyPrefixes),
  )

  const documents = perOperations(() => ({ text: '', unimplemented: -1 }))
  /** Written anew only when there is something new to say: it is long, and anybody may ask for it. */
  function documentOf(operations: Operations): string {
    const document = documents(operations)
    if (document.unimplemented !== unimplemented.size) {
      document.unimplemented = unimplemented.size
      document.text = JSON.stringify(describeGateway(operations, { dialect, unimplemented }))
    }
    return document.text
  }

  const serve: WebModule = async (koa, next) => {
    const operations = catalogue.current
    const { req, res } = koa
    const [raw = '', query = ''] = splitOnce(req.url ?? '', '?')
    if (operations === undefined) {
      const likely = createPrefixes(options.prefix ?? '', options.legacyPrefixes)
      if (!likely.isOurs(likely.place(raw).path) && options.prefix !== undefined) return next()
      browsers.mark(req.headers, res)
      return fail(
        koa,
        new CallError(grpc.unavailable, 'The gateway does not know its upstream yet.', {
          headers: { 'Retry-After': '2' },
        }),
      )
    }
    const prefixes = prefixesOf(operations)
    const { path, legacy } = prefixes.place(raw)
    const isHead = koa.method === 'HEAD'
    let found: ReturnType<Operations['table']['find']>
    try {
      found = operations.table.find(koa.method, path)
      if (found === undefined && isHead) found = operations.table.find('GET', path)
    } catch (thrown) {
      if (!prefixes.isOurs(path)) return next()
      browsers.mark(req.headers, res)
      return fail(koa, thrown)
    }
    const isDocument =
      (isHead || koa.method === 'GET') && operations.isDocument(path, prefixes.current)
    if (found === undefined && !isDocument) return unknown(koa, next, operations, path)

    browsers.mark(req.headers, res)
    if (legacy !== undefined) {
      res.setHeader('Deprecation', 'true')
      res.setHeader(
        'Link',
        `<${path.replace(/[<>]/g, encodeURIComponent)}>; rel="successor-version"`,
      )
    }
    try {
      admit(req.headers)
      // A literal comes before a variable, this one too.
      if (found !== undefined && !isDocument)
        await call(koa, operations, found.value, found.values, path, query)
      else answer(koa, 200, {}, documentOf(operations))
    } catch (thrown) {
      fail(koa, thrown, operations)
    }
  }

  async function call(
    koa: Context,
    operations: Operations,
    operation: Operation,
    path: readonly string[],
    url: string,
    query: string,
  ): Promise<void> {
    const { req, res } = koa
    if (operation.off)
      throw new CallError(grpc.unimplemented, 'This method is switched off in this deployment.')
    if (operation.kind === 'unsupported')
      throw new CallError(grpc.unimplemented, 'This method takes a stream, which HTTP cannot send.')
    const { headers } = req
    const metadata = metadataFrom(headers, isSecret)
    const timeout = headers['grpc-timeout']
    const signal = leaving(res)
    if (operation.kind === 'stream') {
      if (koa.method === 'HEAD') return answer(koa, 200, { 'Content-Type': ndjsonType }, '')
      const body = await readJson(req)
      const message = operation.bind({ path, query, ...(body === undefined ? {} : { body }) })
      const deadlineMs = deadlineOf(timeout, undefined)
      return stream(
        koa,
        operations,
        operation,
        callOf(operation, message, metadata, deadlineMs, signal),
      )
    }
    const deadlineMs = deadlineOf(timeout, options.deadlineMs)
    if (operation.rule.verb !== 'GET') {
      const body = await readJson(req)
      const message = operation.bind({ path, query, ...(body === undefined ? {} : { body }) })
      const reply = await unary(operation, callOf(operation, message, metadata, deadlineMs, signal))
      return answer(koa, 200, headersFrom(reply.metadata), reply.json)
    }

    const identity = `${url}?${query}\n${JSON.stringify(withoutTrace(metadata))}`
    const height = pinnedHeight(metadata)
    const pinned = height === undefined ? undefined : pinOf(operations, identity, headers, gated)
    if (pinned && isKnown(req.headers['if-none-match'], pinned.ETag))
      return answer(koa, 304, pinned, '')
    const reply = await shared.join(
      `${operations.fingerprint} ${timeout ?? ''} ${identity}`,
      async (signal) => {
        const message = operation.bind({ path, query })
        return unary(operation, callOf(operation, message, metadata, deadlineMs, signal))
      },
      signal,
    )
    const out = headersFrom(reply.metadata)
    // An upstream that answers for another height than was asked for gives nothing to keep.
    const told = out['x-cosmos-block-height']
    const keeps = pinned !== undefined && (told === undefined || told === height)
    answer(koa, 200, keeps ? { ...out, ...pinned } : out, reply.json)
  }

  async function unary(operation: Operation, call: Call): Promise<Answered> {
    try {
      const { message, metadata } = await transport.unary(call)
      if (unimplemented.size > 0) unimplemented.delete(operation.path)
      return { json: operation.write(message), metadata }
    } catch (thrown) {
      if (thrown instanceof CallError && thrown.code === grpc.unimplemented)
        unimplemented.add(operation.path)
      throw thrown
    }
  }

  async function stream(
    koa: Context,
    operations: Operations,
    operation: Operation,
    call: Call,
  ): Promise<void> {
    const { res } = koa
    const form = formFor(koa.headers.accept)
    const source = transport.serverStream(call)
    await sendStream(source, {
      res,
      form,
      write: operation.write,
      begin() {
        koa.respond = false
        res.writeHead(200, {
          'Content-Type': form.type,
          'Cache-Control': 'no-cache, no-transform',
          'X-Accel-Buffering': 'no',
        })
      },
      explain: (thrown) => explained(thrown, operations).body,
    })
  }

  /** No binding at this path and method: our own words where the path is ours, the runtime's elsewhere. */
  async function unknown(
    koa: Context,
    next: () => Promise<unknown>,
    operations: Operations,
    path: string,
  ): Promise<void> {
    const { req, res } = koa
    const prefixes = prefixesOf(operations)
    const methods = operations.table.methods(path)
    if (methods.length > 0) {
      browsers.mark(req.headers, res)
      if (koa.method === 'OPTIONS') return browsers.preflight(koa, methods)
      const Allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
      return fail(
        koa,
        new CallError(
          grpc.unimplemented,
          `${koa.method} is not served here, only ${methods.join(', ')}.`,
          {
            status: 405,
            headers: { Allow },
          },
        ),
      )
    }
    const served = prefixes.current
    const message = prefixes.isOurs(path)
      ? `Nothing is served at ${path}.`
      : served !== '' && prefixes.knowsTail(path, operations.table)
        ? `This deployment serves its queries under ${served}.`
        : undefined
    if (message === undefined) return void (await next())
    browsers.mark(req.headers, res)
    fail(koa, new CallError(grpc.notFound, message))
  }

  /** An upstream that is away fails every query: one line a second says so, and how many it stands for. */
  const silent = new Map<number, number>()
  function complain(status: number, thrown: unknown): void {
    const more = silent.get(status)
    if (more !== undefined) return void silent.set(status, more + 1)
    silent.set(status, 0)
    log.warn({ err: thrown }, `a query failed with ${status}`)
    setTimeout(() => {
      const unsaid = silent.get(status) ?? 0
      silent.delete(status)
      if (unsaid > 0) log.warn(`${unsaid} more failed with ${status} within a second`)
    }, complaintMs).unref()
  }

  function explained(thrown: unknown, operations?: Operations): ErrorAnswer {
    const known = errorBody(thrown, operations?.registry ?? bundledRegistry, dialect)
    if (known) {
      if (known.status >= 500 && known.status !== 501) complain(known.status, thrown)
      return known
    }
    log.error({ err: thrown }, 'a query failed on our side')
    return {
      status: 500,
      headers: {},
      body: JSON.stringify({ code: grpc.internal, message: 'A fault on our side.', details: [] }),
    }
  }

  function fail(koa: Context, thrown: unknown, operations?: Operations): void {
    if (koa.res.headersSent) {
      koa.res.destroy()
      return
    }
    const { status, headers, body } = explained(thrown, operations)
    answer(koa, status, { 'Cache-Control': 'no-store', ...headers }, body)
  }

  return {
    serve: Object.assign(serve, { answersPreflights: true }),
    /** The call of one method by its name, outside of HTTP. */
    async query(operation: Operation, message: Uint8Array, signal: AbortSignal): Promise<string> {
      const call = callOf(operation, message, {}, options.deadlineMs, signal)
      return (await unary(operation, call)).json
    },
  }
}

function callOf(
  { path }: Operation,
  message: Uint8Array,
  metadata: Metadata,
  deadlineMs: number | undefined,
  signal: AbortSignal,
): Call {
  return {
    path,
    messages: [message],
    metadata,
    signal,
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  }
}

/** Fires when the client is gone before its answer. */
function leaving(res: ServerResponse): AbortSignal {
  const controller = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished)
      controller.abort(new CallError(grpc.cancelled, 'The client left before the answer.'))
  })
  return controller.signal
}

function answer(koa: Context, status: number, headers: Record<string, string>, body: string): void {
  const { req, res } = koa
  koa.respond = false
  if (res.headersSent || res.destroyed) return
  // What is left of a body that was refused would be read as the next request.
  if (!req.complete && status >= 400) res.shouldKeepAlive = false
  if (status === 304) {
    res.writeHead(304, headers)
    res.end()
    return
  }
  res.writeHead(status, {
    'Content-Type': jsonType,
    ...headers,
    'Content-Length': Buffer.byteLength(body),
  })
  res.end(koa.method === 'HEAD' ? undefined : body)
}

/** The headers of an answer that can never change: the state of one block. */
function pinOf(
  { fingerprint }: Operations,
  identity: string,
  headers: IncomingHttpHeaders,
  gated: boolean,
): { ETag: string; 'Cache-Control': string; Vary: string } {
  const hash = createHash('sha256').update(`${fingerprint}\n${identity}`).digest('base64url')
  const own = Object.keys(headers).filter((name) => name.startsWith(metadataPrefix))
  // A shared cache would hand the answer to those whom the gate or the upstream refuses.
  const scope =
    gated || headers.authorization !== undefined || own.length > 0 ? 'private' : 'public'
  return {
    ETag: `"${hash.slice(0, 22)}"`,
    'Cache-Control': `${scope}, max-age=${yearSeconds}, immutable`,
    Vary: ['x-cosmos-block-height', 'Authorization', 'Origin', ...own].join(', '),
  }
}

const isKnown = (given: string | undefined, etag: string): boolean =>
  given !== undefined && given.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)

function splitOnce(text: string, by: string): [string, string] {
  const at = text.indexOf(by)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

/** Computes something once for each set of operations. */
function perOperations<T>(make: (operations: Operations) => T): (operations: Operations) => T {
  const made = new WeakMap<Operations, T>()
  return (operations) => {
    let value = made.get(operations)
    if (value === undefined) made.set(operations, (value = make(operations)))
    return value
  }
}
