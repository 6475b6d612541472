/** An answer that is more than a JSON value with status 200. Made by `reply()`, `text()` and `created()`. */
export class Reply<Body = unknown> {
  readonly status: number
  /** The Content-Type of a body that is text already; without one the body is JSON. */
  readonly type: string | undefined
  readonly body: Body
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    body: Body,
    type?: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    this.status = status
    this.type = type
    this.body = body
    this.headers = headers
  }
}

/** The statuses whose answers have no body, so beside an `output` there is nothing that must fit. */
type Bodyless = 204 | 205 | 304

/** What `reply()` takes beside status and body. */
export interface ReplyOptions {
  /** More headers of the answer. Those that are the server's are refused. */
  readonly headers?: Readonly<Record<string, string>>
  /** The Content-Type of a body that is text; without it the body is answered as JSON. */
  readonly type?: string
}

/**
 * Answers with a status of its own: JSON, or text of the `type` that is given. Headers of the connection, of the length,
 * of cookies and of CORS are the server's and are refused. For bytes and streams, return a `Response`.
 */
export function reply(status: Bodyless, body?: undefined, options?: ReplyOptions): Reply<never>
export function reply<Body = undefined>(
  status: number,
  body?: Body,
  options?: ReplyOptions,
): Reply<Body>
export function reply(status: number, body?: unknown, { headers, type }: ReplyOptions = {}): Reply {
  if (headers instanceof Headers)
    throw new TypeError('reply() got Headers: give an object, such as Object.fromEntries(headers).')
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw new TypeError(`reply() got the status ${status}: give a status from 200 to 599.`)
  if (type !== undefined && typeof body !== 'string')
    throw new TypeError(`reply() got the type "${type}" and a body that is not text.`)
  for (const [name, value] of Object.entries({
    ...headers,
    ...(type && { 'Content-Type': type }),
  })) {
    if (isReserved(name)) throw new TypeError(`reply() cannot set ${name}: the server sets it.`)
    if (!isToken.test(name) || typeof value !== 'string' || !isHeaderValue.test(value))
      throw new TypeError(`reply() got a header "${name}" that HTTP cannot carry.`)
  }
  return new Reply(status, body, type, headers)
}

/** Answers with `text/plain; charset=utf-8`. */
export function text(body: string, status = 200): Reply<string> {
  return new Reply(status, body, 'text/plain; charset=utf-8')
}

/** Answers 201 with a `Location` and the new thing as JSON. Encode ids in `location` yourself. */
export function created<Body>(location: string, body: Body): Reply<Body> {
  // A header takes ASCII only; what is percent-encoded already stays as it is.
  const ascii = location.toWellFormed().replace(/[^!-~]+/g, encodeURIComponent)
  return new Reply(201, body, undefined, { Location: ascii })
}

const isToken = /^[\w!#$%&'*+.^`|~-]+$/
const isHeaderValue = /^[\t -~\x80-\xff]*$/

/** Headers of one connection, of the length, of cookies and of the kernel itself: no handler's answer carries them. */
const reserved = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'set-cookie',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-content-type-options',
  'x-request-id',
])

/** Whether a header is the server's to set. */
export function isReserved(name: string): boolean {
  const lower = name.toLowerCase()
  return reserved.has(lower) || lower.startsWith('access-control-')
}
