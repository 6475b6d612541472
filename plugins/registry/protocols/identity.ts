import type { Fault } from '#core'
import type { Effective } from './definition.ts'

/** The fault of properties by which a physical twin cannot be told from others. */
export function identityFault(
  { identifiedBy }: Effective,
  given: Readonly<Record<string, unknown>>,
): Fault | undefined {
  if (
    !identifiedBy ||
    identifiedBy.some((name) => Object.hasOwn(given, name) && !isEmpty(given[name]))
  )
    return undefined
  return {
    path: 'properties',
    message: `a physical twin of this protocol has ${identifiedBy.join(' or ')}`,
  }
}

const isEmpty = (value: unknown): boolean =>
  value === null ||
  (typeof value === 'string' && value.trim() === '') ||
  (typeof value === 'object' && Object.keys(value).length === 0)
