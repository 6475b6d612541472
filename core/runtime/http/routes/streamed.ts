import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { Log } from '../../../plugin.ts'
import { isAnswered } from '../answer/answer.ts'
import { errorText } from '../answer/error-body.ts'
import type { Failures } from '../answer/failure.ts'
import { leaveBody, serveResponse } from '../answer/response.ts'
import { SseStream, type SseLimits, setSseHeaders } from '../answer/sse.ts'
import { clientNetwork } from '../limits/client-address.ts'
import type { Access } from './access.ts'
import type { Places } from '../limits/places.ts'
import type { Exchange } from './exchange.ts'

/** A stream of events that a closing server ends. */
export interface EventStream {
  /** Settles when the stream is over. */
  readonly done: Promise<void>
  /** The server closes: a moment later the stream ends. */
  goodbye(reason: unknown): void
}

/** What answers need that are streamed. */
export interface StreamOptions {
  readonly failures: Failures
  readonly log: Log
  readonly sse: SseLimits
  /** Where open event streams are counted, by address. */
  readonly streams?: Places
  /** How long a client may take nothing of an answer. */
  readonly readMs: number
  /** Who calls: the stream of somebody whose proof ends before its time ends, too. */
  readonly access?: Pick<Access, 'hold'>
  /** Called with every stream, so that a closing server can end the stream. */
  opened(stream: EventStream): void
}

/** Whether the answer is not made of one value: Koa, a stream of events, a `Response` or the handler itself sends it. */
export function isStreamed(value: unknown, koa: Context): boolean {
  // Most values are plain objects, which none of the checks below has to look at.
  if (isPlain(value)) return Symbol.asyncIterator in value
  if (value instanceof Response) return true
  return isForKoa(value) || isAsyncIterable(value) || (value === undefined && isAnswered(koa))
}

const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype

/** What Koa sends as it is: bytes and streams of bytes. */
function isForKoa(value: unknown): boolean {
  return (
    value instanceof Readable ||
    value instanceof ReadableStream ||
    value instanceof Blob ||
    Buffer.isBuffer(value)
  )
}

/** What is sent as a stream of events. */
function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

/** Sends what a handler returned where that is streamed; what the handler sent itself is left alone. */
export async function sendStreamed(
  koa: Context,
  exchange: Exchange,
  value: unknown,
  options: StreamOptions,
): Promise<void> {
  if (value instanceof Response) await serve(koa, exchange, value, options)
  else if (isForKoa(value)) koa.body = value
  else if (isAsyncIterable(value)) await stream(koa, exchange, value, options)
}

/** Serves a `Response`. One that streams events counts as a stream of its address, and ends when the server closes. */
async function serve(
  koa: Context,
  exchange: Exchange,
  response: Response,
  { log, opened, sse, streams, readMs, access }: StreamOptions,
): Promise<void> {
  const isEvents = response.headers.get('content-type')?.startsWith('text/event-stream')
  let giveBack: (() => void) | undefined
  try {
    giveBack = isEvents ? streams?.take(clientNetwork(koa.ip)) : undefined
  } catch (error) {
    leaveBody(response)
    throw error
  }
  koa.respond = false
  const closing = new AbortController()
  const { promise: done, resolve: over } = Promise.withResolvers<void>()
  const goodbye = (reason: unknown) => {
    closing.abort(reason)
    exchange.abort(reason)
  }
  if (isEvents) opened({ done, goodbye })
  const letGo = isEvents && access?.hold?.(exchange.user, goodbye)
  const times = { readMs, closing: closing.signal, goodbyeMs: sse.goodbyeMs }
  try {
    await serveResponse(koa, response, times)
  } catch (error) {
    if (!koa.res.headersSent) throw error
    log.warn({ err: error, requestId: exchange.requestId }, 'the body of a Response broke off')
  } finally {
    over()
    giveBack?.()
    if (letGo) letGo()
  }
}

async function stream(
  koa: Context,
  exchange: Exchange,
  source: AsyncIterable<unknown>,
  { failures, log, opened, sse, streams, access }: StreamOptions,
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
    stalled: () =>
      log.info(
        { requestId },
        'An event stream was cut off: its reader does not read what it is sent',
      ),
    lateFailure: (error) => log.warn({ err: error, requestId }, 'a stream failed to clean up'),
  })
  opened(stream)
  const letGo = access?.hold?.(exchange.user, (reason) => stream.goodbye(reason))
  try {
    await stream.run()
  } finally {
    letGo?.()
    giveBack?.()
  }
}

/** A generator that never began has nothing to clean up, but a feed may. */
async function leave(source: AsyncIterable<unknown>): Promise<void> {
  if ('return' in source && typeof source.return === 'function') await source.return()
}
