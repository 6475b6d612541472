import type { Way } from '../config/config.ts'
import type { Child } from './child.ts'

/** What is known of a failure beside the error. */
export interface Circumstances {
  readonly name: string
  readonly way: Way
  /** The client gets its tokens from an authorization server. */
  readonly hasOauth?: boolean
  readonly child?: Child
  readonly withinMs: number
}

const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** What the address answered with: the status that an error of the package carries, or names. */
function statusOf(error: unknown): number | undefined {
  const status = field(field(error, 'data'), 'status') ?? field(error, 'status')
  if (typeof status === 'number') return status
  const code = field(error, 'code')
  return typeof code === 'number' && code >= 300 && code < 600 ? code : undefined
}

/** Every error behind an error, the outermost first; a chain that turns in a circle ends. */
function chainOf(error: unknown): unknown[] {
  const chain: unknown[] = []
  for (let at = error; at !== undefined && at !== null && chain.length < 8;) {
    chain.push(at)
    at = field(at, 'cause') ?? field(field(at, 'data'), 'cause')
  }
  return chain
}

const causes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the name of the host cannot be looked up',
  ECONNRESET: 'the connection was reset',
  ETIMEDOUT: 'the connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'the connection timed out',
  UND_ERR_SOCKET: 'the connection was closed',
}

/** Without what a terminal would take for a command, and short enough for a line. */
export const plain = (text: string, most = 200): string =>
  text
    // eslint-disable-next-line no-control-regex -- these are what is taken away
    .replaceAll(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '')
    .replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, most)
    .toWellFormed()

/** Says in one sentence why a server cannot be used: what `/health` shows and the model reads. */
export function sentenceOf(error: unknown, about: Circumstances): string {
  return `${about.name}: ${about.way.kind === 'stdio' ? ofChild(error, about) : ofAddress(error, about)}`
}

function ofChild(error: unknown, { way, child, withinMs }: Circumstances): string {
  const command = way.kind === 'stdio' ? way.command : ''
  const end = child?.end
  const last = plain(lastLine(child?.errors ?? ''))
  if (end?.fault) {
    const why = { ENOENT: 'not found', EACCES: 'not allowed' }[textOf(end.fault.code)]
    return `cannot start "${plain(command)}": ${why ?? plain(end.fault.message)}.`
  }
  if (end && child?.endedByItself) {
    const how = end.signal ? `was ended by ${end.signal}` : `ended with code ${end.code}`
    return `${how}${last ? `: ${last}` : '.'}`
  }
  if (child?.garbage !== undefined) return `it sent what is no message: ${child.garbage}.`
  return usual(error, withinMs)
}

/** What went wrong on the way to a token. Of what the authorization server says, its code alone is told. */
function ofToken(chain: readonly unknown[], where: string): string | undefined {
  for (const error of chain) {
    const [name, code] = [textOf(field(error, 'name')), textOf(field(error, 'code'))]
    if (name === 'AuthorizationServerMismatchError')
      return `${where} names another authorization server than oracle.oauth.issuer; nothing was sent there.`
    if (name === 'InsecureTokenEndpointError')
      return `the authorization server of ${where} is plain http: on another host; nothing was sent there.`
    if (name === 'OAuthError')
      return `the authorization server of ${where} gives no token for oracle.oauth: ${plain(code, 40)}.`
  }
  return undefined
}

function ofAddress(error: unknown, { way, hasOauth, withinMs }: Circumstances): string {
  const url = way.kind === 'stdio' ? '' : new URL(way.url)
  const where = url ? `${url.origin}${url.pathname}` : ''
  const chain = chainOf(error)
  const status = chain.map(statusOf).find((found) => found !== undefined)
  const names = chain.map((each) => textOf(field(each, 'name')))
  const words = chain.map((each) => textOf(field(each, 'message'))).join(' ')
  const token = hasOauth ? ofToken(chain, where) : undefined
  if (token !== undefined) return token
  const isUnknown = status === 401 || names.includes('UnauthorizedError')
  if (isUnknown && hasOauth) return `${where} takes no token of oracle.oauth.`
  if (isUnknown)
    return `${where} wants other credentials (headers.Authorization). Servers where each user logs in are not supported.`
  if (status === 403) return `${where} refuses these credentials (headers.Authorization).`
  if (status === 404) return `there is no MCP server at ${where}.`
  if (/redirect/i.test(words)) return `${where} redirects to another host; nothing was sent there.`
  const codes = chain.map((each) => textOf(field(each, 'code')))
  const code = Object.keys(causes).find((each) => codes.includes(each) || words.includes(each))
  if (code) return `no answer at ${where}: ${causes[code]}.`
  if (
    /wrong.version.number|packet length too long|ERR_SSL_WRONG_VERSION/i.test(
      words + codes.join(' '),
    )
  )
    return `no answer at ${where}: it does not speak TLS. Is the address http: ?`
  if (
    /certificate|ssl|tls/i.test(words) ||
    chain.some((each) => /CERT|TLS|SSL/.test(textOf(field(each, 'code'))))
  )
    return `no answer at ${where}: its certificate is not trusted.`
  if (/content.?type|html|Unexpected token/i.test(words))
    return `${where} answers with something that is not MCP. Is it the address of a page?`
  if (status !== undefined) return `${where} answers with status ${status}.`
  if (isTimeout(error)) return usual(error, withinMs)
  const inner = plain(textOf(field(chain.at(-1), 'message')))
  return /fetch failed/i.test(words) ? `no answer at ${where}: ${inner}.` : usual(error, withinMs)
}

const isTimeout = (error: unknown): boolean =>
  chainOf(error).some(
    (each) =>
      field(each, 'code') === 'REQUEST_TIMEOUT' ||
      ['TimeoutError', 'AbortError'].includes(textOf(field(each, 'name'))),
  )

function usual(error: unknown, withinMs: number): string {
  if (isTimeout(error)) return `no answer within ${Math.round(withinMs / 1000)} s.`
  const words = textOf(field(error, 'message'))
  const [, method] = /^Invalid result for ([a-z/]{1,40}):/.exec(words) ?? []
  if (method !== undefined) {
    const [, fault] = /"message": "([^"\\]{1,80})"/.exec(words) ?? []
    return `its answer to ${method} is none of the protocol${fault ? ` (${plain(fault)})` : ''}.`
  }
  if (/protocol version/i.test(words)) return `no common version of the protocol: ${plain(words)}`
  return plain(words) || 'it failed for an unknown reason.'
}

/** The last line that says something. */
const lastLine = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
    .at(-1) ?? ''
