import { RuntimeError, type Code, type ErrorOptions } from '../../errors.ts'

/** Who can do something about it is not who reads it. */
const forUsers = 'Whoever runs this server finds the reason in its log.'

interface ModelFaultOptions extends Omit<ErrorOptions, 'hint'> {
  /** What a user can do. */
  readonly hint?: string
  /** What the operator can do, who reads it in the log. */
  readonly check?: string
}

/**
 * What a model's provider did wrong. Users read that it did; which host it was, and which setting to look at, is said
 * in the cause, which never leaves the log.
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
