import { catalogue } from '../../../error-codes.ts'
import { RuntimeError } from '../../../errors.ts'

/** The one shape that every error answer has. */
export interface ErrorBody {
  readonly statusCode: number
  readonly code: string
  readonly message: string
  readonly hint?: string
  readonly details?: unknown
  readonly requestId: string
}

/** The message of an unknown fault, for the caller; the log has the fault itself. */
const neutral = 'Something went wrong on our side. The log has the details under the request id.'

/** The first code of the catalogue for each status: the code of an error that has a status alone. */
const codeOf = new Map<number, string>()
for (const [code, { status }] of Object.entries(catalogue))
  if (!codeOf.has(status)) codeOf.set(status, code)

/** A foreign handler's `koa.throw(404, 'No such page')`, or any error that says it may be shown. */
function shown(error: unknown): error is Error & { status: number } {
  if (!(error instanceof Error) || !('status' in error) || !('expose' in error)) return false
  return error.expose === true && typeof error.status === 'number' && error.status < 500
}

/** Any thrown value as a RuntimeError that may be shown. An unknown one becomes INTERNAL, its cause kept. */
export function toRuntimeError(
  error: unknown,
  isUnreachable: (error: unknown) => boolean,
): RuntimeError {
  if (error instanceof RuntimeError) return error
  if (shown(error)) return ofStatus(error.status, error.message)
  if (isUnreachable(error))
    return new RuntimeError('DATABASE_UNREACHABLE', 'The database does not answer just now.', {
      hint: 'Try again in a moment.',
      cause: error,
    })
  const cause = error ?? new Error(`Nothing was thrown: ${error}.`) // a rejection without a reason
  return new RuntimeError('INTERNAL', neutral, { cause })
}

/** The error that a bare HTTP status stands for. */
export function ofStatus(status: number, message?: string): RuntimeError {
  const code = codeOf.get(status) ?? (status < 500 ? 'BAD_REQUEST' : 'INTERNAL')
  const said = message ?? catalogue[code as keyof typeof catalogue].means
  return new RuntimeError(code, said, { status })
}

/** The status that an error answers with; a status of a plugin's own that is no error becomes 500. */
export function statusOf(error: RuntimeError): number {
  return Number.isInteger(error.status) && error.status >= 400 && error.status <= 599
    ? error.status
    : 500
}

/** The body of an error. Payment is the one error whose facts stand beside the code: clients read `claims` there. */
function errorBody(error: RuntimeError, requestId: string): ErrorBody {
  const body = {
    statusCode: statusOf(error),
    code: error.code,
    message: error.message,
    hint: error.hint,
    requestId,
  }
  if (error.details === undefined) return body
  if (error.code !== 'PAYMENT_REQUIRED' || typeof error.details !== 'object')
    return { ...body, details: error.details }
  const asked = { error: 'Payment Required', ...error.details, ...body }
  return asked
}

/** The body as text. Details that JSON cannot express are left out, so that the error always reaches the caller. */
export function errorText(error: RuntimeError, requestId: string): string {
  try {
    return JSON.stringify(errorBody(error, requestId))
  } catch {
    const { code, message, hint } = error
    const bare = new RuntimeError(code, message, { hint, status: statusOf(error) })
    return JSON.stringify(errorBody(bare, requestId))
  }
}
