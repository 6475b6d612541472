import { fieldsIn, isRecord } from '../../core/runtime/base/fields.ts'

export { fieldsIn, isRecord }

/** The items of a list; none where the value is no list. */
export const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** The items of a list as objects. */
export const recordsOf = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  itemsOf(value).map(fieldsIn)

/** A text; empty where the value is none. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Text in pieces of a word each, with the gap before it. */
export const wordsOf = (text: string): readonly string[] => text.match(/\s*\S+|\s+$/g) ?? []

/** Text in pieces of a length; at least one piece. */
export function piecesOf(text: string, length: number): readonly string[] {
  const pieces: string[] = []
  for (let from = 0; from < text.length; from += length)
    pieces.push(text.slice(from, from + length))
  return pieces.length > 0 ? pieces : ['']
}

/** JSON with sorted keys, so that equal values are equal texts: a database may have changed the order of the keys. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value).sort()
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join()}}`
}

/** Parses JSON; undefined for what is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
