import { RuntimeError } from '#core'

interface Facts {
  readonly field: string
  readonly value: unknown
  readonly [fact: string]: unknown
}

/** 422: the parameters are valid, but the population cannot bear them. */
export const insufficient = (message: string, hint: string, facts: Facts) =>
  new RuntimeError('UNPROCESSABLE', message, { hint, details: facts })

/** 409: definitions, or the state of a design, contradict what is asked. */
export const conflicting = (message: string, hint: string, facts: Facts) =>
  new RuntimeError('CONFLICT', message, { hint, details: facts })

/** 400: a parameter that only its surroundings show to be wrong. */
export const invalid = (path: string, message: string, hint?: string) =>
  new RuntimeError('INVALID_INPUT', `"${path}" is not valid: ${message}.`, {
    hint,
    details: [{ path, message }],
  })
