import type { Context } from 'koa'
import { wholeJson } from '../../base/safe-json.ts'
import { hasBody } from '../read/body.ts'
import { isUnchanged } from './etag.ts'
import { Reply } from './reply.ts'

/** An answer as it goes over the wire. */
export interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/** The Content-Type of every JSON answer. */
export const jsonType = 'application/json; charset=utf-8'

/**
 * What a handler returned, as an answer: `reply()`, `text()` and `created()` as they say, everything else as
 * JSON. Nothing at all (`undefined`) is `{}`, for every 2xx body is JSON.
 */
export function toAnswer(value: unknown, status: number): Answer {
  if (!(value instanceof Reply)) return { status, type: jsonType, body: toJson(value) }
  const { status: own, type, body, headers } = value
  return type === undefined
    ? { status: own, type: jsonType, body: toJson(body), headers }
    : { status: own, type, body: String(body), headers }
}

/** JSON.stringify has no text for a function or a symbol, its types notwithstanding. */
const toJson = (value: unknown) => wholeJson((JSON.stringify(value) as string | undefined) ?? '{}')

/** Whether the handler took the answer into its own hands through `ctx.koa`. */
export function isAnswered({ body, respond, res }: Context): boolean {
  return body !== undefined || respond === false || res.headersSent
}

/** Statuses whose answers have no body. */
export const bodyless: ReadonlySet<number> = new Set([204, 205, 304])

/** Sends an answer. A Content-Type that the handler set stays; a client that has the ETag already gets a 304. */
export function send(koa: Context, { status, type, body, headers }: Answer): void {
  const { req, res } = koa
  koa.respond = false
  if (res.headersSent || res.destroyed) return
  if (res.statusCode !== status) {
    res.statusCode = status
    // Koa may have set the message of the status before.
    res.statusMessage = ''
  }
  for (const name in headers) res.setHeader(name, headers[name] ?? '')
  if (status === 200 && req.headers['if-none-match'] !== undefined && isFresh(koa)) {
    res.statusCode = 304
    res.removeHeader('Content-Type')
    res.end()
  } else if (bodyless.has(status)) res.end()
  else {
    if (!res.hasHeader('Content-Type')) res.setHeader('Content-Type', type)
    // Node writes the length by itself, but not for a HEAD.
    if (req.method === 'HEAD') res.setHeader('Content-Length', Buffer.byteLength(body))
    if (!req.complete && hasBody(req) && !isShort(koa)) linger(koa, body)
    else res.end(body)
  }
}

function isFresh({ req, res }: Context): boolean {
  const etag = res.getHeader('ETag')
  return (
    (req.method === 'GET' || req.method === 'HEAD') &&
    typeof etag === 'string' &&
    isUnchanged(req.headers['if-none-match'] ?? '', etag)
  )
}

const drainBytes = 1024 * 1024

/** Whether the rest of the body is small enough to be read and forgotten. */
function isShort({ req }: Context): boolean {
  return Number(req.headers['content-length'] ?? Infinity) <= drainBytes
}

const lingerMs = 2000
const lingerBytes = 64 * drainBytes

/**
 * Answers while the client is still sending a body that no handler reads. Closing at once would reset the connection
 * before the client has read the answer: so the whole answer goes out, and for a moment the server throws away what
 * still arrives.
 */
function linger({ req, res }: Context, body: string): void {
  res.shouldKeepAlive = false
  res.setHeader('Content-Length', Buffer.byteLength(body))
  res.write(body)
  let left = lingerBytes
  const timer = setTimeout(() => close(), lingerMs)
  const close = () => {
    clearTimeout(timer)
    res.end()
  }
  req.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) close()
  })
  req.once('end', close)
  res.once('close', () => clearTimeout(timer))
}
