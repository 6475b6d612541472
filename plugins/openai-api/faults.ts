import type { ToldError } from '#core'
import { RuntimeError } from '#core'

/** The codes that clients of this protocol know by status; all others are ours. */
const codes = new Map([
  [401, 'invalid_api_key'],
  [402, 'insufficient_quota'],
  [429, 'rate_limit_exceeded'],
])

const types = new Map([
  [401, 'authentication_error'],
  [402, 'insufficient_quota'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [429, 'rate_limit_error'],
])

/** What the details of an error say of the field that is wrong. */
function paramOf(details: unknown): string | null {
  const [first]: unknown[] = Array.isArray(details) ? details : [details]
  if (typeof first !== 'object' || first === null) return null
  if ('param' in first && typeof first.param === 'string') return first.param
  return 'path' in first && typeof first.path === 'string' && first.path !== '' ? first.path : null
}

/** An error in the words of OpenAI's API. */
export function toOpenAi({ status, code, message, hint, details }: Omit<ToldError, 'requestId'>) {
  return {
    error: {
      message: hint ? `${message} ${hint}` : message,
      type: types.get(status) ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      code: code === 'MODEL_UNKNOWN' ? 'model_not_found' : (codes.get(status) ?? code),
      param: paramOf(details),
    },
  }
}

/** A request that cannot be, and the field in which it cannot. */
export const refused = (param: string, message: string): RuntimeError =>
  new RuntimeError('INVALID_INPUT', message, { details: [{ path: param, message }] })
