/** What a request to the messaging server ran into. */
export type FaultKind =
  'unreachable' | 'silent' | 'failing' | 'foreign' | 'limited' | 'rejected' | 'refused'

/** A request that the messaging server did not serve. `message` is a sentence without any text of the server. */
export class ServerFault extends Error {
  readonly kind: FaultKind
  readonly status: number
  /** The error's name in Matrix, such as `M_FORBIDDEN`. */
  readonly errcode: string
  readonly waitMs: number | undefined

  constructor(
    kind: FaultKind,
    message: string,
    more: { readonly status?: number; readonly errcode?: string; readonly waitMs?: number } = {},
  ) {
    super(message)
    this.kind = kind
    this.status = more.status ?? 0
    this.errcode = more.errcode ?? ''
    this.waitMs = more.waitMs
  }
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'name not found',
  EAI_AGAIN: 'name not found',
  ECONNRESET: 'it closes the connection',
  UND_ERR_SOCKET: 'it closes the connection',
  EHOSTUNREACH: 'no way leads there',
  ENETUNREACH: 'no way leads there',
  ETIMEDOUT: 'no answer',
}

/** What a failed `fetch` met, as a fault with a sentence. */
export function faultOf(thrown: unknown, timeoutMs: number): ServerFault {
  if (thrown instanceof ServerFault) return thrown
  const causes = causesOf(thrown)
  if (causes.some(({ name }) => name === 'TimeoutError'))
    return new ServerFault('silent', `no answer within ${timeoutMs / 1_000} s`)
  for (const { code, message } of causes) {
    if (code === undefined) continue
    const reason = reasons[code]
    if (reason) return new ServerFault('unreachable', reason)
    if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code))
      return new ServerFault('unreachable', `certificate: ${message.slice(0, 100)}`)
  }
  return new ServerFault('unreachable', 'the connection failed')
}

const mostCauses = 5

/** An error and what caused it, the outermost first. Node hides the causes of several addresses in `errors`. */
function causesOf(thrown: unknown): { name: string; code: string | undefined; message: string }[] {
  const found = []
  let next: unknown = thrown
  while (next instanceof Error && found.length < mostCauses) {
    const code = 'code' in next && typeof next.code === 'string' ? next.code : undefined
    found.push({ name: next.name, code, message: next.message })
    const several = 'errors' in next && Array.isArray(next.errors) ? next.errors[0] : undefined
    next = next.cause ?? several
  }
  return found
}

/** What an answer that is no success means. */
export function refusal(status: number, body: unknown, retryAfter: string | null): ServerFault {
  const fields = typeof body === 'object' && body !== null ? body : {}
  const errcode =
    'errcode' in fields && typeof fields.errcode === 'string' ? fields.errcode.slice(0, 100) : ''
  if (status === 429) {
    const ms = 'retry_after_ms' in fields ? Number(fields.retry_after_ms) : NaN
    const seconds = Number(retryAfter ?? NaN)
    const told = Number.isFinite(ms) ? ms : Number.isFinite(seconds) ? seconds * 1_000 : 5_000
    const waitMs = Math.min(Math.max(told, 100), longestWaitMs)
    const sentence = `it asks to wait ${Math.ceil(waitMs / 1_000)} s`
    return new ServerFault('limited', sentence, { status, errcode, waitMs })
  }
  if (status >= 500) return new ServerFault('failing', `it answers ${status}`, { status, errcode })
  if (errcode === '')
    return new ServerFault('foreign', 'no Matrix server answers there', { status })
  const kind = rejections.has(errcode) ? 'rejected' : 'refused'
  return new ServerFault(kind, `it answers ${status} ${errcode}`, { status, errcode })
}

const rejections = new Set(['M_UNKNOWN_TOKEN', 'M_MISSING_TOKEN', 'M_USER_DEACTIVATED'])
/** The longest that a server can make us wait. */
const longestWaitMs = 600_000
