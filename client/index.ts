/** The one shape of every error answer. */
export interface ErrorBody {
  readonly statusCode: number
  readonly code: string
  readonly message: string
  readonly hint?: string
  readonly details?: unknown
  readonly requestId: string
}

/** An error answer of an oracle, or a connection that failed (status 0). */
export class OracleError extends Error {
  override readonly name = 'OracleError'
  readonly status: number
  readonly code: string
  readonly hint: string | undefined
  readonly details: unknown
  readonly requestId: string | undefined

  constructor(body: Partial<ErrorBody> & { readonly message: string }) {
    super(body.message)
    this.status = body.statusCode ?? 0
    this.code = body.code ?? 'UNKNOWN'
    this.hint = body.hint
    this.details = body.details
    this.requestId = body.requestId
  }
}

/** The JSON of a good answer; an `OracleError` for any other. */
export async function answerOf<T>(response: Response): Promise<T> {
  const text = await response.text()
  const body = parsed(text)
  if (response.ok && body !== undefined) return body as T
  const error = body as Partial<ErrorBody> | undefined
  throw new OracleError({
    statusCode: response.status,
    requestId: response.headers.get('x-request-id') ?? undefined,
    ...error,
    message: error?.message ?? `The server answered ${response.status} with something that is not JSON.`,
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // A proxy's page, say; the caller tells from the status.
  }
}
