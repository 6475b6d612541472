import { fromBinary, type JsonValue } from '@bufbuild/protobuf'
import type { Context } from 'koa'
import type { IncomingMessage } from 'node:http'
import { answer } from '../http/answer.ts'
import { isSafe, type Calls, type CallParts } from '../http/calls.ts'
import type { Failures } from '../http/failures.ts'
import { headersFrom } from '../http/metadata.ts'
import { readBytes } from '../http/request-body.ts'
import { sendStream } from '../http/streams.ts'
import { JsonWriter } from '../json/writer.ts'
import { writeAnswer, type Operation, type Operations } from '../operations/operations.ts'
import { CallError, grpc } from '../statuses.ts'
import {
  checkHeaders,
  encodingOf,
  ending,
  inEnvelope,
  messageJson,
  opened,
  queryRequest,
  timeoutOf,
  type Encoding,
} from './protocol.ts'

/** A method as the Connect protocol serves it, at `/package.Service/Method`. */
export interface ConnectMethod {
  readonly operation: Operation
  /** Whether a GET may call it too. */
  readonly readsOnly: boolean
  /** Writes an encoded answer as protobuf's own JSON, whatever the dialect of the other routes. */
  write(message: Uint8Array): string
}

/** The methods that have a binding, by their paths. The Connect protocol reaches no others. */
export type ConnectMethods = ReadonlyMap<string, ConnectMethod>

/** Makes the methods of some operations. */
export function connectMethods({ all, registry }: Operations): ConnectMethods {
  const writer = new JsonWriter({ dialect: 'proto3', decimals: false, registry })
  const methods = new Map<string, ConnectMethod>()
  for (const operation of all) {
    const { method } = operation.rule
    const known = methods.get(operation.path)
    const readsOnly = isSafe(operation.rule)
    // Of several bindings the one that reads counts, so that another upstream may be asked when one is away.
    if (known?.readsOnly || (known && !readsOnly)) continue
    methods.set(operation.path, {
      operation,
      readsOnly,
      write: (bytes) => writeAnswer(method, writer.writerOf(method.output), bytes),
    })
  }
  return methods
}

/** The HTTP methods by which a method is called. */
export const verbsOf = ({ operation, readsOnly }: ConnectMethod): string[] =>
  readsOnly && operation.kind === 'unary' ? ['GET', 'POST'] : ['POST']

/** A request for a method, with the parts of its call that do not depend on the protocol. */
export interface ConnectAsked {
  readonly method: ConnectMethod
  readonly operations: Operations
  readonly query: string
  readonly signal: AbortSignal
  readonly deadlineMs: number
  /** The metadata of the call. It throws for headers that contradict themselves. */
  readonly metadata: () => CallParts['metadata']
  /** Lets the request through, or throws. */
  readonly admit: () => void
}

/** Serves methods by the Connect protocol: one answer, or a stream of the server. */
export class Connect {
  readonly #calls: Calls
  readonly #failures: Failures

  constructor(calls: Calls, failures: Failures) {
    this.#calls = calls
    this.#failures = failures
  }

  /** Answers a request. Failures, too, are answered in the form of the protocol. */
  async serve(koa: Context, asked: ConnectAsked): Promise<void> {
    const { operation } = asked.method
    const isStream = (koa.req.headers['content-type'] ?? '').startsWith('application/connect+')
    // A client of a stream reads failures at the end of the stream only, whatever the method is.
    if (operation.kind === 'stream' || (operation.kind === 'unsupported' && isStream))
      return this.#stream(koa, asked)
    try {
      await this.#unary(koa, asked)
    } catch (thrown) {
      this.#failures.answer(koa, thrown, asked.operations, 'connect')
    }
  }

  async #unary(koa: Context, asked: ConnectAsked): Promise<void> {
    const { method, signal, deadlineMs, query } = asked
    const { operation } = method
    asked.admit()
    checkHeaders(koa.req, false)
    const endsAfterMs = timeoutOf(koa.req.headers['connect-timeout-ms'], deadlineMs)
    const { encoding, bytes } =
      koa.method === 'GET'
        ? queryRequest(query)
        : { encoding: encodingOf(koa.req, false), bytes: await readBytes(koa.req) }
    refuseUnserved(operation)
    const reply = await this.#calls.ask(operation, {
      message: encoded(operation, encoding, bytes),
      metadata: asked.metadata(),
      deadlineMs: endsAfterMs,
      signal,
    })
    const headers = { ...headersFrom(reply.metadata), 'Content-Type': `application/${encoding}` }
    const body = encoding === 'proto' ? reply.message : method.write(reply.message)
    answer(koa, 200, headers, body)
  }

  async #stream(koa: Context, asked: ConnectAsked): Promise<void> {
    const { method, operations, signal } = asked
    const { operation } = method
    let encoding: Encoding
    try {
      encoding = encodingOf(koa.req, true)
    } catch (thrown) {
      return this.#failures.answer(koa, thrown, operations, 'connect')
    }
    const headers = {
      'Content-Type': `application/connect+${encoding}`,
      'Cache-Control': 'no-cache, no-transform',
      'X-Accel-Buffering': 'no',
    }
    const failure = (thrown: unknown) =>
      ending(this.#failures.explain(thrown, operations, 'connect').body)
    try {
      asked.admit()
      refuseUnserved(operation)
      checkHeaders(koa.req, true)
      const stream = this.#calls.stream(operation, {
        message: encoded(operation, encoding, opened(await readBytes(koa.req))),
        metadata: asked.metadata(),
        deadlineMs: timeoutOf(koa.req.headers['connect-timeout-ms'], undefined),
        signal,
      })
      await sendStream(stream, {
        res: koa.res,
        item: (bytes) =>
          inEnvelope(encoding === 'proto' ? bytes : Buffer.from(method.write(bytes))),
        failure,
        end: ending(),
        begin() {
          koa.respond = false
          koa.res.writeHead(200, headers)
        },
      })
    } catch (thrown) {
      // The answer to a call for a stream is 200 in any case, and its end says what went wrong.
      // Node would read the unread rest of a refused body as the next request on this connection.
      if (!koa.req.complete) koa.res.shouldKeepAlive = false
      answer(koa, 200, headers, failure(thrown))
    }
  }
}

function refuseUnserved({ off, kind }: Operation): void {
  if (off)
    throw new CallError(grpc.unimplemented, 'This method is switched off in this deployment.')
  if (kind === 'unsupported')
    throw new CallError(
      grpc.unimplemented,
      'This method takes a stream, which this server does not.',
    )
}

/** The encoded input message of a call. Bytes that are none are refused here and not sent on. */
function encoded(operation: Operation, encoding: Encoding, bytes: Uint8Array): Uint8Array {
  const { input } = operation.rule.method
  if (encoding === 'json') {
    const json: JsonValue = messageJson(bytes)
    if (typeof json !== 'object' || json === null || Array.isArray(json))
      throw new CallError(grpc.invalidArgument, 'The message is not a JSON object.')
    return operation.encode(json)
  }
  try {
    fromBinary(input, bytes)
  } catch (cause) {
    throw new CallError(grpc.invalidArgument, `The message is no ${input.typeName}.`, { cause })
  }
  return bytes
}

/** The error for an HTTP method by which a method is not called. */
export function wrongVerb(
  { method: verb = '' }: IncomingMessage,
  method: ConnectMethod,
): CallError {
  const verbs = verbsOf(method)
  return new CallError(
    grpc.unimplemented,
    `${verb} is not served here, only ${verbs.join(' and ')}.`,
    { status: 405, headers: { Allow: [...verbs, 'OPTIONS'].join(', ') } },
  )
}
