import { RuntimeError, type Fault } from '#core'

/** The most faults that a check collects before it stops. */
export const mostFaults = 100

/** 400: a value in the request is not valid. `path` says where the value stands. */
export const invalid = (path: string, message: string, hint?: string) =>
  refused([{ path, message }], hint)

/** 400 for several faults at once; the message names the first. */
export function refused(faults: readonly Fault[], hint?: string): RuntimeError {
  const [first] = faults
  const more = faults.length > 1 ? ` And ${faults.length - 1} more.` : ''
  return new RuntimeError(
    'INVALID_INPUT',
    `"${first?.path}" is not valid: ${first?.message}${first?.message.endsWith('?') ? '' : '.'}${more}`,
    { hint, details: faults },
  )
}

/** 404: the registry has no thing with this id. `kind` says what kind of thing: an entity, a protocol. */
export const notFound = (kind: string, id: string, hint?: string) =>
  new RuntimeError('NOT_FOUND', `There is no ${kind} ${id}.`, { hint })

/** 422: a well-formed request names something that the registry does not have. */
export const unresolved = (path: string, message: string, hint?: string) =>
  new RuntimeError('UNPROCESSABLE', `"${path}" names what is not here: ${message}.`, {
    hint,
    details: [{ path, message }],
  })

/** 409: the present state of the registry forbids the request. */
export const conflicting = (message: string, hint: string, details?: unknown) =>
  new RuntimeError('CONFLICT', message, { hint, details })

/** 410: the thing was deactivated. The tombstone in `details` says what it was. */
export const gone = (kind: string, id: string, tombstone: object, hint?: string) =>
  new RuntimeError('GONE', `The ${kind} ${id} was deactivated.`, { hint, details: tombstone })
