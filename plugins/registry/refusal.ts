import type { z } from 'zod'
import { RuntimeError, type Fault } from '#core'

/** Who sends more faults than this corrects these first. */
export const mostFaults = 100

/** 400: what was sent cannot be. `path` says where it stood. */
export const invalid = (path: string, message: string, hint?: string) =>
  refused([{ path, message }], hint)

/** 400 for several faults at once; the message names the first. */
export function refused(faults: readonly Fault[], hint?: string): RuntimeError {
  const [first] = faults
  const more = faults.length > 1 ? ` And ${faults.length - 1} more.` : ''
  return new RuntimeError(
    'INVALID_INPUT',
    `"${first?.path}" is not valid: ${first?.message}.${more}`,
    { hint, details: faults },
  )
}

/** What a schema finds wrong, as faults. */
export const faultsIn = ({ issues }: z.ZodError): Fault[] =>
  issues.map(({ path, message }) => ({ path: path.map(String).join('.'), message }))

/** 404: the thing in the address is not here. `kind` is what it would be: an entity, a protocol. */
export const notFound = (kind: string, id: string, hint?: string) =>
  new RuntimeError('NOT_FOUND', `There is no ${kind} ${id}.`, { hint })

/** 422: a well-formed request names something that is not here. */
export const unresolved = (path: string, message: string, hint?: string) =>
  new RuntimeError('UNPROCESSABLE', `"${path}" names what is not here: ${message}.`, {
    hint,
    details: [{ path, message }],
  })

/** 409: the present state forbids it. */
export const conflicting = (message: string, hint: string, details?: unknown) =>
  new RuntimeError('CONFLICT', message, { hint, details })

/** 410: the entity was deactivated. The tombstone tells when. */
export const gone = (id: string, tombstone: object) =>
  new RuntimeError('GONE', `The entity ${id} was deactivated.`, {
    hint: 'Its history is still there.',
    details: tombstone,
  })
