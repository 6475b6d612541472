import { z } from 'zod'

/** Makes the message of a zod check, which says what is wanted and what the request has instead. */
export const wants = (what: string) => ({
  error: (issue: { readonly input?: unknown }) =>
    issue.input === undefined ? `missing; give ${what}` : `give ${what}, not ${shown(issue.input)}`,
})

/** A value as messages quote it: at most 60 characters of JSON. */
export function shown(value: unknown): string {
  const text =
    typeof value === 'bigint' ? String(value) : (JSON.stringify(value, onlyFirst) ?? String(value))
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** How many items of a list `shown` writes as JSON; even items of one character then exceed 60 characters. */
const enough = 30
const onlyFirst = (_: string, value: unknown): unknown =>
  Array.isArray(value) && value.length > enough ? value.slice(0, enough) : value

/** A number; messages say `what` is wanted. */
export const number = (what: string) => z.number(wants(what))
/** A number above `least`. */
export const above = (least: number, what: string) => number(what).gt(least, wants(what))
/** A whole number from `least` to `most`. */
export const integer = (least: number, most: number, what: string) =>
  number(what).int(wants(what)).min(least, wants(what)).max(most, wants(what))
/** A text of 1 to `most` characters, trimmed. */
export const words = (most: number, what: string) =>
  z.string(wants(what)).trim().min(1, wants(what)).max(most, wants(what))

/** A number of at least 0. */
export const zeroOrMore = (what: string) => number(what).min(0, wants(what))

const didPattern = /^did:[a-z0-9]+:(?:[A-Za-z0-9._%-]+:)*[A-Za-z0-9._%-]+$/
/** A DID. */
export const did = (what: string) =>
  z.string(wants(what)).max(500, wants(what)).regex(didPattern, wants(what))

/** Names of strata stand in seeds, in files and as keys of objects, so the pattern forbids control characters and unsafe keys. */
const namePattern = /^(?!(?:__proto__|constructor)$)[^\p{Cc}\u2028\u2029]*$/u
/** The name of a stratum. */
export function stratumName(what: string) {
  return words(100, what).regex(namePattern, wants(what))
}
