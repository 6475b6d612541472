import { z } from 'zod'
import { isDid, isEntityId, longestId } from './did.ts'

/** A message that tells what came, beside what is wanted. */
export const wants = (what: string) => ({
  error: (issue: { readonly input?: unknown }) =>
    issue.input === undefined ? `missing; give ${what}` : `give ${what}, not ${shown(issue.input)}`,
})

/** A value as it is quoted in a message: short. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value, onlyFirst) ?? String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** So many items, of one character each with the commas, are longer than what is shown. */
const enough = 30
const onlyFirst = (_: string, value: unknown): unknown =>
  Array.isArray(value) && value.length > enough ? value.slice(0, enough) : value

const printable = /^[^\x00-\x1f\x7f]+$/

/** A word or two on one line. */
export const name = (most: number, what: string) =>
  z.string(wants(what)).max(most, wants(what)).regex(printable, wants(what))

/** What is too long is not looked at any further. */
const onlyFault = (what: string) => ({ ...wants(what), abort: true })

/** A DID, as a party has. */
export const did = (what: string) =>
  z.string(wants(what)).max(longestId, onlyFault(what)).refine(isDid, wants(what))

/** The id of an entity or a protocol: a DID, or a DID URL with a path. */
export const entityId = (what: string) =>
  z.string(wants(what)).max(longestId, onlyFault(what)).refine(isEntityId, wants(what))

/** A JSON object with any members. */
export const record = (what: string) => z.record(z.string(), z.unknown(), wants(what))
