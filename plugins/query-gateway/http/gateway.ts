import type { Context } from 'koa'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { RuntimeError, type Log, type ServedApi, type WebModule } from '#core'
import {
  Connect,
  connectMethods,
  type ConnectAsked,
  verbsOf,
  wrongVerb,
} from '../connect/connect.ts'
import { saysConnect } from '../connect/protocol.ts'
import type { Dialect } from '../json/writer.ts'
import { Documents } from '../openapi/documents.ts'
import type { Catalogue } from '../operations/catalogue.ts'
import type { Operation, Operations } from '../operations/operations.ts'
import { perOperations } from '../operations/per-operations.ts'
import { CallError, grpc } from '../statuses.ts'
import type { Transport } from '../upstream/transport.ts'
import { AddressLimit, tooMany } from './address-limit.ts'
import { answer } from './answer.ts'
import { createBrowserRule } from './browsers.ts'
import { Calls, type Answered, type CallParts } from './calls.ts'
import { Failures } from './failures.ts'
import type { Gate } from './gate.ts'
import {
  deadlineOf,
  headersFrom,
  isSameHeight,
  metadataFrom,
  pinnedHeight,
  withoutTrace,
} from './metadata.ts'
import { isKnown, pinOf } from './pin.ts'
import { type LegacyPrefix, Prefixes } from './prefixes.ts'
import { readJson } from './request-body.ts'
import { SharedCalls } from './shared-calls.ts'
import { formFor, ndjsonType, sendStream } from './streams.ts'

/** What `Gateway` needs from the plugin. */
export interface GatewayOptions {
  readonly catalogue: Catalogue
  readonly transport: Transport
  readonly upstreams: readonly string[]
  readonly dialect: Dialect
  readonly gate: Gate
  readonly corsOrigins: readonly string[]
  /** The prefix of the routes; undefined: the first segment that all annotations share. */
  readonly prefix: string | undefined
  readonly legacyPrefixes: readonly LegacyPrefix[]
  readonly deadlineMs: number
  /** The most requests a minute from one address. */
  readonly ratePerMinute: number
  /** Whether a text contains a credential for this server. */
  readonly holdsCredential: (text: string) => boolean
  readonly log: Log
}

/** A request whose operation was found. */
interface Asked {
  readonly operations: Operations
  readonly operation: Operation
  readonly path: readonly string[]
  readonly url: string
  readonly query: string
}

/** The parts of a call beside its operation and its message. */
interface Carried extends Omit<CallParts, 'message'> {
  readonly metadata: Record<string, string>
}

/** The web module at '/', which looks up each request without a route of the runtime among the annotations. */
export class Gateway {
  readonly #options: GatewayOptions
  readonly #calls: Calls
  readonly #failures: Failures
  readonly #shared = new SharedCalls<Answered>()
  readonly #limit: AddressLimit
  readonly #browsers: ReturnType<typeof createBrowserRule>
  readonly #prefixesOf: (operations: Operations) => Prefixes
  readonly #connect: Connect
  readonly #connectMethods = perOperations(connectMethods)
  readonly #documents: Documents
  /** The module that Koa calls. */
  readonly serve: WebModule

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#calls = new Calls(options.transport)
    this.#documents = new Documents(this.#calls, options.dialect)
    options.catalogue.onLacking((lacking) => this.#calls.learn(lacking))
    this.#failures = new Failures(options)
    this.#connect = new Connect(this.#calls, this.#failures)
    this.#limit = new AddressLimit(options.ratePerMinute)
    this.#browsers = createBrowserRule(options.corsOrigins)
    this.#prefixesOf = perOperations(
      ({ commonPrefix }) => new Prefixes(options.prefix ?? commonPrefix, options.legacyPrefixes),
    )
    const serve: WebModule = (koa, next) => this.#serve(koa, next)
    this.serve = Object.assign(serve, {
      answersPreflights: true,
      openapi: () => this.#api(),
    })
  }

  /** Calls a method for the agent, without an HTTP request. */
  async query(operation: Operation, message: Uint8Array, signal: AbortSignal): Promise<string> {
    const { deadlineMs } = this.#options
    const { json } = await this.#calls.unary(operation, {
      message,
      metadata: {},
      deadlineMs,
      signal,
    })
    return json
  }

  async #serve(koa: Context, next: () => Promise<unknown>): Promise<unknown> {
    const operations = this.#options.catalogue.current
    const { req, res } = koa
    const [raw = '', query = ''] = splitOnce(req.url ?? '', '?')
    const waits = isPreflight(req) ? undefined : this.#limit.take(koa.ip)
    if (operations === undefined) return this.#notYet(koa, next, raw, waits)
    const prefixes = this.#prefixesOf(operations)
    const { path, legacy } = prefixes.place(raw)
    const isHead = koa.method === 'HEAD'
    let found: ReturnType<Operations['table']['find']>
    try {
      found = operations.table.find(koa.method, path)
      if (found === undefined && isHead) found = operations.table.find('GET', path)
    } catch (thrown) {
      const isOurs = prefixes.isOurs(path)
      if (waits !== undefined) return this.#refuse(koa, waits, isOurs)
      if (!isOurs) return next()
      this.#browsers.mark(req.headers, res)
      return this.#failures.answer(koa, thrown)
    }
    const isDocument =
      isHead || koa.method === 'GET' ? operations.documentAt(path, prefixes.current) : undefined
    const isServed = found !== undefined || isDocument !== undefined
    const method = isServed ? undefined : this.#connectMethods(operations).get(raw)
    if (method) return this.#connected(koa, { method, operations, query }, waits)
    if (waits !== undefined) return this.#refuse(koa, waits, isServed || prefixes.isOurs(path))
    if (!isServed) return this.#unknown(koa, next, operations, path)

    this.#browsers.mark(req.headers, res)
    if (legacy !== undefined) deprecate(res, path, legacy)
    try {
      this.#options.gate.admit(req.headers)
      // The document takes precedence over a binding with a variable, as every literal does.
      if (found === undefined || isDocument)
        answer(koa, 200, ...this.#documents.answerOf(operations, isDocument))
      else {
        const { value: operation, values } = found
        await this.#call(koa, { operations, operation, path: values, url: path, query })
      }
    } catch (thrown) {
      this.#failures.answer(koa, thrown, operations)
    }
  }

  /** Answers a request for a method at the path that the Connect protocol gives the method. */
  async #connected(
    koa: Context,
    asked: Pick<ConnectAsked, 'method' | 'operations' | 'query'>,
    waits: number | undefined,
  ): Promise<void> {
    const { req, res } = koa
    const { gate, deadlineMs } = this.#options
    const verbs = verbsOf(asked.method)
    this.#browsers.mark(req.headers, res)
    if (koa.method === 'OPTIONS') return this.#browsers.preflight(koa, verbs)
    if (!verbs.includes(koa.method))
      return this.#failures.answer(koa, wrongVerb(req, asked.method), asked.operations, 'connect')
    await this.#connect.serve(koa, {
      ...asked,
      deadlineMs,
      signal: leaving(res),
      metadata: () => this.#metadataOf(req),
      admit() {
        if (waits !== undefined) throw tooMany(waits)
        gate.admit(req.headers)
      },
    })
  }

  /** The metadata of the call for a request, without what is a credential here. */
  #metadataOf({ headers }: IncomingMessage): Record<string, string> {
    const { gate, holdsCredential } = this.#options
    return metadataFrom(headers, (name, value) => gate.isOwn(name, value) || holdsCredential(value))
  }

  /** Answers before the descriptors are read: 503 for paths that may be the gateway's, others go on to the runtime. */
  async #notYet(
    koa: Context,
    next: () => Promise<unknown>,
    raw: string,
    waits: number | undefined,
  ): Promise<unknown> {
    const { prefix, legacyPrefixes } = this.#options
    const likely = new Prefixes(prefix ?? '', legacyPrefixes)
    const byConnect = saysConnect(koa.req)
    const isOurs = byConnect || likely.isOurs(likely.place(raw).path) || prefix === undefined
    if (waits !== undefined) return this.#refuse(koa, waits, isOurs)
    if (!isOurs) return next()
    this.#browsers.mark(koa.req.headers, koa.res)
    return this.#failures.answer(
      koa,
      new CallError(grpc.unavailable, 'The gateway does not know its upstream yet.', {
        headers: { 'Retry-After': '2' },
      }),
      undefined,
      byConnect ? 'connect' : undefined,
    )
  }

  /** Refuses a request that is one too many: in the words of the runtime where the path is not the gateway's. */
  #refuse(koa: Context, seconds: number, isOurs: boolean): void {
    if (!isOurs)
      throw new RuntimeError('RATE_LIMITED', 'Too many requests from this address.', {
        hint: `Try again in ${seconds} seconds.`,
        headers: { 'Retry-After': String(seconds) },
      })
    this.#browsers.mark(koa.req.headers, koa.res)
    this.#failures.answer(koa, tooMany(seconds))
  }

  /** The operations for the document of the whole server. Everybody may read that document, so a gated gateway gives none. */
  #api(): ServedApi | undefined {
    const { catalogue, gate } = this.#options
    if (gate.gated || catalogue.current === undefined) return undefined
    return this.#documents.api(catalogue.current)
  }

  async #call(koa: Context, asked: Asked): Promise<void> {
    const { operation } = asked
    if (operation.off)
      throw new CallError(grpc.unimplemented, 'This method is switched off in this deployment.')
    if (operation.kind === 'unsupported')
      throw new CallError(grpc.unimplemented, 'This method takes a stream, which HTTP cannot send.')
    const { deadlineMs } = this.#options
    const { headers } = koa.req
    const metadata = this.#metadataOf(koa.req)
    const signal = leaving(koa.res)
    if (operation.kind === 'stream') {
      if (koa.method === 'HEAD') return answer(koa, 200, { 'Content-Type': ndjsonType }, '')
      const message = await messageOf(koa.req, asked)
      const endsAfterMs = deadlineOf(headers['grpc-timeout'], undefined)
      return this.#stream(koa, asked, { message, metadata, deadlineMs: endsAfterMs, signal })
    }
    const endsAfterMs = deadlineOf(headers['grpc-timeout'], deadlineMs)
    const carried = { metadata, deadlineMs: endsAfterMs, signal }
    if (operation.rule.verb === 'GET') return this.#get(koa, asked, carried)
    const message = await messageOf(koa.req, asked)
    const reply = await this.#calls.unary(operation, { message, ...carried })
    answer(koa, 200, headersFrom(reply.metadata), reply.json)
  }

  /** Answers a GET. Equal GETs of several clients at the same time share one call of the upstream. */
  async #get(
    koa: Context,
    { operations, operation, path, url, query }: Asked,
    { metadata, deadlineMs, signal }: Carried,
  ): Promise<void> {
    const { headers } = koa.req
    const identity = `${url}?${query}\n${JSON.stringify(withoutTrace(metadata))}`
    const height = pinnedHeight(metadata)
    const { gated } = this.#options.gate
    const pinned = height === undefined ? undefined : pinOf(operations, identity, headers, gated)
    if (pinned && isKnown(headers['if-none-match'], pinned.ETag))
      return answer(koa, 304, { ...pinned }, '')
    const reply = await this.#shared.join(
      `${operations.fingerprint} ${headers['grpc-timeout'] ?? ''} ${identity}`,
      async (signal) => {
        const message = operation.bind({ path, query })
        return this.#calls.unary(operation, { message, metadata, deadlineMs, signal })
      },
      signal,
    )
    const out = headersFrom(reply.metadata)
    // Only an answer that names the height which the client asked for is known to be the state at that height.
    const told = out['x-cosmos-block-height']
    const keeps = pinned && height !== undefined && told !== undefined && isSameHeight(height, told)
    answer(koa, 200, keeps ? { ...out, ...pinned } : out, reply.json)
  }

  async #stream(koa: Context, { operations, operation }: Asked, parts: CallParts): Promise<void> {
    const { res } = koa
    const form = formFor(koa.headers.accept)
    await sendStream(this.#calls.stream(operation, parts), {
      res,
      heartbeat: form.heartbeat,
      item: (message) => form.item(operation.write(message)),
      failure: (thrown) => form.failure(this.#failures.explain(thrown, operations).body),
      begin() {
        koa.respond = false
        res.writeHead(200, {
          'Content-Type': form.type,
          'Cache-Control': 'no-cache, no-transform',
          'X-Accel-Buffering': 'no',
        })
      },
    })
  }

  /** Answers a request without a binding: the gateway refuses it under its own prefix, and the runtime elsewhere. */
  async #unknown(
    koa: Context,
    next: () => Promise<unknown>,
    operations: Operations,
    path: string,
  ): Promise<void> {
    const { req, res } = koa
    const prefixes = this.#prefixesOf(operations)
    const methods = operations.table.methods(path)
    if (methods.length > 0) {
      this.#browsers.mark(req.headers, res)
      if (koa.method === 'OPTIONS') return this.#browsers.preflight(koa, withHead(methods))
      return this.#failures.answer(koa, wrongMethod(koa.method, methods))
    }
    const served = prefixes.current
    const message = prefixes.isOurs(path)
      ? `Nothing is served at ${path}.`
      : served !== '' && prefixes.knowsTail(path, operations.table)
        ? `This deployment serves its queries under ${served}.`
        : undefined
    if (message === undefined) return void (await next())
    this.#browsers.mark(req.headers, res)
    this.#failures.answer(koa, new CallError(grpc.notFound, message))
  }
}

/** Reads the body of a request, and makes the encoded message of the call. */
async function messageOf(req: IncomingMessage, { operation, path, query }: Asked) {
  const body = await readJson(req)
  return operation.bind({ path, query, ...(body === undefined ? {} : { body }) })
}

/** Sets the headers that tell a client of an old prefix where the path is served now. */
function deprecate(res: ServerResponse, path: string, { since }: LegacyPrefix): void {
  // RFC 9745: a date of RFC 9651, which is seconds after an @.
  res.setHeader('Deprecation', `@${since}`)
  res.setHeader('Link', `<${path.replace(/[<>]/g, encodeURIComponent)}>; rel="successor-version"`)
}

/** The methods of a path: where GET is served, HEAD is served too. */
const withHead = (served: readonly string[]): readonly string[] =>
  served.includes('GET') ? [...served, 'HEAD'] : served

function wrongMethod(method: string, served: readonly string[]): CallError {
  const Allow = [...withHead(served), 'OPTIONS'].join(', ')
  const message = `${method} is not served here, only ${served.join(', ')}.`
  return new CallError(grpc.unimplemented, message, { status: 405, headers: { Allow } })
}

/** A signal that fires when the client leaves before its answer is complete. */
function leaving(res: ServerResponse): AbortSignal {
  const controller = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished)
      controller.abort(new CallError(grpc.cancelled, 'The client left before the answer.'))
  })
  return controller.signal
}

/** Whether a browser asks what its page may do. The kernel counts no such request, and neither does the gateway. */
const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

function splitOnce(text: string, by: string): [string, string] {
  const at = text.indexOf(by)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
