import type { Code } from '../../../error-codes.ts'
import { RuntimeError, type ErrorOptions } from '../../../errors.ts'

/** The hint for a user, when only the operator can help. */
const forUsers = 'Whoever runs this server finds the reason in its log.'

interface ModelFaultOptions extends Omit<ErrorOptions, 'hint'> {
  /** What a user can do. */
  readonly hint?: string
  /** What the operator can do. Only the log has this text. */
  readonly check?: string
}

/**
 * Makes the error for a fault of a model's provider. Users read what the provider did. The host and the setting to look at
 * stand in the cause, which never leaves the log.
 */
export function modelFault(
  code: Code,
  host: string,
  what: string,
  { check, hint = check && forUsers, cause, ...options }: ModelFaultOptions = {},
): RuntimeError {
  const why = cause instanceof Error ? ` ${cause.message}` : ''
  const inside = new Error(`${host} ${what}${why}${check ? ` ${check}` : ''}`, { cause })
  return new RuntimeError(code, `The model's provider ${what}`, { ...options, hint, cause: inside })
}
