import { RuntimeError } from '../../../errors.ts'
import { fieldsIn } from '../../base/fields.ts'
import { cutToFit } from './cut-result.ts'

/** How much of one result a model gets whose tool says nothing else. More would fill the window of the model. */
export const usualResultBytes = 32 * 1024
/** How much of one error a model gets. */
const mostBytes = 100 * 1024
/** JSON that is longer is not read again to be cut: the model gets its beginning as text. */
const mostCharactersRead = 32 * 1024 * 1024

/** A tool's value as the text of its message: a string as it is, everything else as JSON. */
export function resultText(value: unknown): string {
  if (value === undefined || value === null) return 'Done.'
  return typeof value === 'string' ? value : jsonOf(value)
}

/** What a value is of which JSON holds nothing, and what to return in its place; undefined for all others. */
export function unreadable(value: unknown): readonly [what: string, instead: string] | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (value instanceof Response)
    return ['a Response', 'what it holds, such as await response.json()']
  if (value instanceof Map) return ['a Map', 'an object: Object.fromEntries(map)']
  if (value instanceof Set) return ['a Set', 'a list: [...set]']
  if (Symbol.asyncIterator in value || value instanceof Iterator)
    return ['a stream of values', 'them together, as one value']
  return undefined
}

/** The same, cut to the usual size; the rest of what is cut is not kept. */
export function contentOf(value: unknown): string {
  const text = resultText(value)
  return fitsIn(text, usualResultBytes)
    ? text
    : cutData(dataOf(value, text), text, usualResultBytes)
}

/** Whether a text has at most so many bytes. */
export function fitsIn(text: string, bytes: number): boolean {
  // A character takes at most three bytes for each of its UTF-16 units, so a text this short fits without counting.
  return text.length * 3 <= bytes || (text.length <= bytes && Buffer.byteLength(text) <= bytes)
}

/** A value as the data that its JSON says: without the methods, circles and large numbers that no JSON has. */
export function dataOf(value: unknown, text: string): unknown {
  if (typeof value === 'string' || text.length > mostCharactersRead) return text
  try {
    return JSON.parse(text)
  } catch {
    return text // a function, for example, has a text and no JSON
  }
}

/** Data cut to so many bytes of JSON; data that nests too deep to be cut is cut as its text. */
export function cutData(data: unknown, text: string, maxBytes: number, handle?: string): string {
  try {
    return cutToFit(data, maxBytes, handle)
  } catch (error) {
    if (error instanceof RangeError) return cutToFit(text, maxBytes)
    throw error
  }
}

/** An error as the model reads it: what happened and what to do. The cause and the stack stay out. */
export function explained({ message, code, hint, details }: RuntimeError): string {
  return bounded(jsonOf({ error: message, code, hint, details }))
}

/** Reads the error back from a text of `explained`, for a call that failed before a crash. */
export function recordedError(content: string): RuntimeError {
  const { error, code, hint, details } = writtenFields(content)
  return new RuntimeError(
    typeof code === 'string' ? code : 'INTERNAL',
    typeof error === 'string' ? error : content,
    { hint: typeof hint === 'string' ? hint : undefined, details },
  )
}

function writtenFields(json: string): Readonly<Record<string, unknown>> {
  try {
    return fieldsIn(JSON.parse(json))
  } catch {
    return {} // `bounded` has cut the text, so it is no JSON any more; the whole text is the message then
  }
}

/** JSON of any value. A circle becomes `[circular]` where it closes, a bigint becomes its digits. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value, digits) ?? String(value)
  } catch (error) {
    if (error instanceof RangeError)
      throw new RuntimeError('INTERNAL', 'The result is too large or too deep to be written down.')
    return JSON.stringify(value, openCircles()) ?? String(value)
  }
}

const digits = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value)

function openCircles() {
  const path: unknown[] = []
  // JSON.stringify hands the object that holds the key as `this`.
  return function (this: unknown, _: string, value: unknown): unknown {
    if (typeof value === 'bigint') return String(value)
    if (typeof value !== 'object' || value === null) return value
    while (path.length > 0 && path.at(-1) !== this) path.pop()
    if (path.includes(value)) return '[circular]'
    path.push(value)
    return value
  }
}

function bounded(text: string): string {
  // A character takes at most three bytes for each of its UTF-16 units, so a text this short fits without counting.
  if (text.length * 3 <= mostBytes) return text
  const bytes = Buffer.byteLength(text)
  if (bytes <= mostBytes) return text
  const all = Buffer.from(text)
  let end = mostBytes
  // Goes back to the byte where a character begins.
  while (end > 0 && (all[end]! & 0xc0) === 0x80) end--
  const kept = all.toString('utf8', 0, end)
  return `${kept}\n[cut here: these are the first ${kilobytes(mostBytes)} of ${kilobytes(bytes)}]`
}

const kilobytes = (bytes: number) => `${Math.round(bytes / 1024)} kB`
