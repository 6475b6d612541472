import type { IncomingMessage, ServerResponse } from 'node:http'
import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, HeaderSection } from '../../plugin.ts'

/** Headers that pages of other origins may send. */
const allowedHeaders = [
  'Accept',
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Last-Event-ID',
  'X-Api-Key',
  'X-Auth-Type',
  'X-Filename',
  'X-Request-Id',
  'X-Ucan-Delegation',
]

/** Headers of answers that pages of other origins may read. */
const exposedHeaders = [
  'X-Request-Id',
  'X-Run-Id',
  'Date',
  'ETag',
  'Idempotency-Replayed',
  'Location',
  'Retry-After',
  'WWW-Authenticate',
  'Link',
  'Deprecation',
]

const maxAgeSeconds = '7200'

/** Who may call from a browser page of another origin: anyone, those listed, or nobody. */
export interface Cors {
  readonly origins: 'any' | ReadonlySet<string>
  /** Whether the rule is the route's own: then the server refuses a foreign page, and not only keeps the page from reading. */
  readonly strict: boolean
  /** The headers that pages may send and read, as the lists of an answer. */
  readonly headers: { readonly allow: string; readonly expose: string }
}

/** The rule of the whole server, from CORS_ORIGIN (`*` or origins with commas between), and the headers of plugins. */
export function readCors(setting: string, { allow = [], expose = [] }: HeaderSection = {}): Cors {
  const origins = setting.split(',').map((origin) => origin.trim().replace(/\/$/, ''))
  return {
    origins: origins.includes('*') ? 'any' : new Set(origins.filter(Boolean)),
    strict: false,
    headers: {
      allow: listOf([...allowedHeaders, ...allow]),
      expose: listOf([...exposedHeaders, ...expose]),
    },
  }
}

/** Names as a header has them, each once: several plugins may need the same. */
const listOf = (names: readonly string[]): string => [...new Set(names)].join(', ')

/** The rule of one route or web module, where it has one of its own. */
export function corsOf({ cors }: Pick<AnyRoute, 'cors'>, server: Cors): Cors {
  const { headers } = server
  return cors === undefined ? server : { origins: new Set(cors || []), strict: true, headers }
}

/** Says on the response whether the page that asked may read it. There are no cookies, so no credentials. */
export function setCors(
  { origins, headers }: Cors,
  req: IncomingMessage,
  res: ServerResponse,
): void {
  if (origins === 'any') res.setHeader('Access-Control-Allow-Origin', '*')
  else {
    if (origins.size > 0) res.setHeader('Vary', 'Origin')
    const { origin } = req.headers
    if (origin === undefined || !origins.has(origin)) return
    res.setHeader('Access-Control-Allow-Origin', origin)
  }
  res.setHeader('Access-Control-Expose-Headers', headers.expose)
}

/** Whether a browser asks what it may send before it sends it. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}

/** Answers a preflight; a page that may not call gets an answer that allows nothing. */
export function setPreflight(cors: Cors, req: IncomingMessage, res: ServerResponse): void {
  setCors(cors, req, res)
  if (!res.hasHeader('Access-Control-Allow-Origin')) return
  res.setHeader('Access-Control-Allow-Methods', 'GET, HEAD, POST, PUT, PATCH, DELETE')
  res.setHeader('Access-Control-Allow-Headers', cors.headers.allow)
  res.setHeader('Access-Control-Max-Age', maxAgeSeconds)
}

/**
 * Refuses a foreign page where the route closed itself to it. Without this a form of that page
 * could still write, though not read. The server's own pages send an Origin too and are let in.
 */
export function refuseForeign({ origins, strict }: Cors, req: IncomingMessage, own?: string): void {
  if (!strict || origins === 'any') return
  const { origin, host } = req.headers
  if (origin === undefined) {
    if (!saysForeign(req)) return
  } else if (origins.has(origin) || origin === own) return
  else if (origin === `http://${host}` || origin === `https://${host}`) return
  throw new RuntimeError('FORBIDDEN', 'This route is not open to pages of other origins.', {
    hint: 'Call it from a server, or from an origin that the route lists.',
  })
}

/** Whether a browser that sent no Origin says all the same that the page is foreign. A link to a GET changes nothing. */
function saysForeign({ method, headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site']
  return (site === 'cross-site' || site === 'same-site') && method !== 'GET' && method !== 'HEAD'
}
