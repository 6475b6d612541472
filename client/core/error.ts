/** The codes of what can go wrong, for an app to branch on. */
export type OracleErrorCode =
  | 'network'
  | 'timeout'
  | 'unauthorized'
  | 'delegation_required'
  | 'payment_required'
  | 'rate_limited'
  | 'invalid_request'
  | 'not_found'
  | 'server'
  | 'stream_interrupted'
  | 'run_failed'
  | 'tool_failed'
  | 'browser_tool_failed'
  | 'config_unresolved'
  | 'schema_unsupported'
  | 'plugin_not_available'
  | 'payment_pending'
  | 'payment_failed'
  | 'passkey_unsupported'
  | 'passkey_cancelled'
  | 'media_denied'
  | 'media_unavailable'
  | 'consent_needed'
  | 'call_not_verified'
  | 'call_failed'
  | 'call_ended'

/** The body of every error answer of an oracle. The server has the same type; a test compares the two. */
export interface ErrorBody {
  readonly statusCode: number
  readonly code: string
  readonly message: string
  readonly hint?: string
  readonly details?: unknown
  readonly requestId: string
}

/** What an error may have beside its code and its sentence. */
export interface ErrorFacts {
  /** The HTTP status; 0 when no answer came. */
  readonly status?: number
  /** The server's own code, for example `SIGNING_KEY_NOT_LOADED`. */
  readonly serverCode?: string
  readonly hint?: string
  readonly details?: unknown
  readonly requestId?: string
  /** The claims that the user has to pay first. */
  readonly claimIds?: readonly string[]
  /** How many milliseconds the client should wait before it asks again, as the server says. */
  readonly retryAfterMs?: number
  readonly cause?: unknown
}

/** The class of every error of this library. */
export class OracleError extends Error {
  declare readonly status: number
  declare readonly serverCode?: string
  declare readonly hint?: string
  declare readonly details?: unknown
  declare readonly requestId?: string
  declare readonly claimIds: readonly string[]
  declare readonly retryAfterMs?: number
  override readonly name = 'OracleError'
  readonly code: OracleErrorCode

  constructor(code: OracleErrorCode, message: string, facts: ErrorFacts = {}) {
    super(message)
    this.code = code
    Object.assign(this, { status: 0, claimIds: [] }, facts)
  }
}

const codes: Readonly<Record<number, OracleErrorCode>> = {
  401: 'unauthorized',
  402: 'payment_required',
  404: 'not_found',
  408: 'timeout',
  410: 'not_found',
  429: 'rate_limited',
  504: 'timeout',
}

type ErrorAnswer = Partial<ErrorBody> & { readonly claims?: unknown }

/** The error that an answer of a server stands for. */
export async function errorOf(response: Response): Promise<OracleError> {
  const { status, headers } = response
  // An answer that is no JSON is a proxy's page, for example: the status says enough.
  const body: ErrorAnswer = Object(await response.json().catch(() => null))
  return new OracleError(
    codes[status] ?? (status < 500 ? 'invalid_request' : 'server'),
    body.message ?? `It answered ${status}.`,
    {
      status,
      serverCode: body.code,
      hint: body.hint,
      details: body.details ?? body.claims,
      requestId: body.requestId ?? headers.get('x-request-id') ?? undefined,
      claimIds: claimIdsOf(body.claims),
      // A date, which the header may have, too, is no number: then the caller waits as it sees fit.
      retryAfterMs: Number(headers.get('retry-after')) * 1000 || undefined,
    },
  )
}

/** The ids of claims, which a server sends as ids or as records that have one. */
export function claimIdsOf(claims: unknown): string[] {
  if (!Array.isArray(claims)) return []
  return claims.map((claim) => String(claim?.claimId ?? claim?.id ?? claim))
}

/** Any thrown value as an error of this library; what `fetch` throws means that the server cannot be reached. */
export function toOracleError(thrown: unknown): OracleError {
  if (thrown instanceof OracleError) return thrown
  const timedOut = (thrown as Error | null)?.name === 'TimeoutError'
  return timedOut
    ? new OracleError('timeout', 'The server did not answer in time.', { cause: thrown })
    : new OracleError('network', 'The server cannot be reached.', { cause: thrown })
}
