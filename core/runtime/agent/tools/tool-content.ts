import { RuntimeError } from '../../../errors.ts'
import { fieldsIn } from '../../base/fields.ts'

/** What a model is given of one result. More would fill its window and say little. */
const mostBytes = 100 * 1024

/** A tool's value as its message says it: text as it is, everything else as JSON, cut where it is huge. */
export function contentOf(value: unknown): string {
  if (value === undefined || value === null) return 'Done.'
  return bounded(typeof value === 'string' ? value : jsonOf(value))
}

/** An error as the model reads it: what happened and what to do, without anything internal. */
export function explained({ message, code, hint, details }: RuntimeError): string {
  return bounded(jsonOf({ error: message, code, hint, details }))
}

/** The error behind a text of `explained`: what a call that failed before a crash came to. */
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
    return {} // a text that was cut is no JSON any more; it is the message then
  }
}

/** JSON of anything: a circle is named where it closes, a bigint is written as its digits. */
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
  // No text of so few characters has more bytes, whatever they are.
  if (text.length * 3 <= mostBytes) return text
  const bytes = Buffer.byteLength(text)
  if (bytes <= mostBytes) return text
  const all = Buffer.from(text)
  let end = mostBytes
  // Back to where a character begins.
  while (end > 0 && (all[end]! & 0xc0) === 0x80) end--
  const kept = all.toString('utf8', 0, end)
  return `${kept}\n[cut here: these are the first ${kilobytes(mostBytes)} of ${kilobytes(bytes)}]`
}

const kilobytes = (bytes: number) => `${Math.round(bytes / 1024)} kB`
