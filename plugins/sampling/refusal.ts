import { RuntimeError } from '#core'

interface Facts {
  readonly field: string
  readonly value: unknown
  readonly [fact: string]: unknown
}

/** 422: the parameters are valid, but the population is too small for them. */
export const insufficient = (message: string, hint: string, facts: Facts) =>
  new RuntimeError('UNPROCESSABLE', message, { hint, details: facts })

/** 409: parts of the request contradict each other, or the state of the design forbids the request. */
export const conflicting = (message: string, hint: string, facts: Facts) =>
  new RuntimeError('CONFLICT', message, { hint, details: facts })

/** 400: a parameter is wrong in combination with others, which the schema alone cannot see. */
export const invalid = (path: string, message: string, hint?: string) =>
  new RuntimeError('INVALID_INPUT', `"${path}" is not valid: ${message}.`, {
    hint,
    details: [{ path, message }],
  })
