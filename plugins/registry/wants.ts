import { z } from 'zod'
import { isDid, isEntityId, longestId } from './did.ts'

/** Makes the message of a zod check, which says what is wanted and what the request has instead. */
export const wants = (what: string) => ({
  error: (issue: { readonly input?: unknown }) =>
    issue.input === undefined ? `missing; give ${what}` : `give ${what}, not ${shown(issue.input)}`,
})

/** The same for a union whose last option is an object: where the request has an object, it says what is wrong inside. */
export const wantsOneOf = (what: string) => ({
  error({ input, errors }: UnionIssue) {
    const inner = isObject(input) ? errors?.at(-1)?.[0] : undefined
    if (!inner) return wants(what).error({ input })
    return inner.path.length > 0 ? `${inner.path.join('.')}: ${inner.message}` : inner.message
  },
})

/** What zod tells of a value that fits no option of a union. */
interface UnionIssue {
  readonly input?: unknown
  readonly errors?: readonly (readonly { path: PropertyKey[]; message: string }[])[]
}

/** A value as messages quote it: at most 60 characters of JSON. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value, onlyFirst) ?? String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** How many items of a list `shown` writes as JSON; even items of one character then exceed 60 characters. */
const enough = 30
const onlyFirst = (_: string, value: unknown): unknown =>
  Array.isArray(value) && value.length > enough ? value.slice(0, enough) : value

const printable = /^[^\x00-\x1f\x7f]+$/

/** The schema of a short text on one line. */
export const name = (most: number, what: string) =>
  z.string(wants(what)).max(most, wants(what)).regex(printable, wants(what))

/** A message whose check ends the validation, so that no later check reads a text that is too long. */
const onlyFault = (what: string) => ({ ...wants(what), abort: true })

/** The schema of the DID of a party. */
export const did = (what: string) =>
  z.string(wants(what)).max(longestId, onlyFault(what)).refine(isDid, wants(what))

/** The schema of the id of an entity or a protocol: a DID, or a DID URL with a path. */
export const entityId = (what: string) =>
  z.string(wants(what)).max(longestId, onlyFault(what)).refine(isEntityId, wants(what))

/** Whether a value is a JSON object, and no list. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The schema of a JSON object with any members. */
export const record = (what: string) => z.record(z.string(), z.unknown(), wants(what))
