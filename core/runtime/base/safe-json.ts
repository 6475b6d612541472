import { RuntimeError } from '../../errors.ts'
import { breakIn } from './json-break.ts'

/** How deep JSON may nest, and how many keys one object may have: later checks look at every level and every key. */
export const maxDepth = 64
const maxKeys = 10_000

/**
 * Parses JSON from outside. Refuses what is no JSON, nests deeper than 64 levels, has an object of more than
 * 10,000 keys, names a key
 * `__proto__` or `constructor` in any spelling, holds U+0000 or half a surrogate pair in a string,
 * or a number that no double can hold. `plain` says that the text is known to be `isPlain`.
 */
export function parseJson(text: string, plain = false): unknown {
  if (nestsTooDeep(text))
    throw new RuntimeError('TOO_DEEP', `The JSON nests deeper than ${maxDepth} levels.`)
  if (hasTooManyKeys(text))
    throw new RuntimeError(
      'INVALID_INPUT',
      `An object in the JSON has more than ${maxKeys} keys.`,
      {
        hint: 'Send a list, or several objects.',
      },
    )
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // V8's error names the place only sometimes, and then quotes the body, which can hold a secret.
    throw new RuntimeError('INVALID_JSON', `The JSON is broken at ${place(text, breakIn(text))}.`)
  }
  // Looking at every value costs as much as parsing, so it happens only where the text gives a reason.
  const fault = plain || isPlain(text) ? undefined : faultIn(value)
  if (fault !== undefined) throw fault.error(fault.path.join('.'))
  return value
}

/** Whether nothing in a text gives a reason to look at every value; then nothing in any part of it does. */
export const isPlain = (text: string): boolean =>
  // Five searches: one pattern for all of them costs ten times as much.
  !text.includes('\\u') &&
  !text.includes('__proto__') &&
  !text.includes('constructor') &&
  !/[eE]\+?\d{3}/.test(text) &&
  !hasDigits(309, text)

/** Whether `count` digits stand in a row. One of them then stands at a multiple of `count`: the loop looks only there. */
function hasDigits(count: number, text: string): boolean {
  const isDigit = (at: number) => {
    const char = text.charCodeAt(at)
    return char >= 0x30 && char <= 0x39
  }
  for (let at = count - 1; at < text.length; at += count) {
    if (!isDigit(at)) continue
    let from = at
    while (isDigit(from - 1)) from--
    while (isDigit(at + 1)) at++
    if (at - from + 1 >= count) return true
  }
  return false
}

/** What is wrong somewhere in a value. `faultIn` builds the path on its way back, for most values have no fault. */
interface Unsafe {
  readonly path: string[]
  error(path: string): RuntimeError
}

function faultIn(value: unknown): Unsafe | undefined {
  if (typeof value === 'string') {
    const error = textFault(value)
    return error && { path: [], error }
  }
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : tooLarge
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const fault = faultIn(value[index])
      if (fault !== undefined) return { ...fault, path: [String(index), ...fault.path] }
    }
    return undefined
  }
  for (const [key, item] of Object.entries(value)) {
    const error = keyFault(key)
    if (error !== undefined) return { path: [], error }
    const fault = faultIn(item)
    if (fault !== undefined) return { ...fault, path: [key, ...fault.path] }
  }
  return undefined
}

const tooLarge: Unsafe = {
  path: [],
  error: (path) =>
    new RuntimeError('INVALID_INPUT', `The number at "${path}" is too large.`, {
      details: [{ path, message: 'too large for a number' }],
    }),
}

const inside = (path: string) => (path === '' ? '' : ` at "${path}"`)

/** The two names through which an object's prototype is reached, and what no text may hold. */
function keyFault(key: string): Unsafe['error'] | undefined {
  if (key !== '__proto__' && key !== 'constructor') return textFault(key)
  return (path) =>
    new RuntimeError('UNSAFE_KEY', `The key "${key}"${inside(path)} is not accepted.`)
}

/** U+0000, which databases cannot store, and halves of surrogate pairs, which UTF-8 cannot write. */
function textFault(text: string): Unsafe['error'] | undefined {
  if (!text.includes('\0') && text.isWellFormed()) return undefined
  const what = text.includes('\0') ? 'U+0000' : 'half a surrogate pair'
  return (path) => new RuntimeError('UNSAFE_TEXT', `The text${inside(path)} holds ${what}.`)
}

/** Refuses a name from outside that would reach a prototype, or cannot be stored. */
export function checkKey(key: string): void {
  const error = keyFault(key)
  if (error !== undefined) throw error('')
}

/** Refuses text that cannot be stored; `path` says where it stood. */
export function checkText(text: string, path: string): void {
  const error = textFault(text)
  if (error !== undefined) throw error(path)
}

const quote = 0x22
const backslash = 0x5c

/** Counts brackets outside strings before anything is built, so that a million of them cost nothing. */
export function nestsTooDeep(text: string): boolean {
  if (text.length <= maxDepth) return false
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === quote) at = endOfString(text, at)
    else if (char === 0x5b || char === 0x7b) {
      if (++depth > maxDepth) return true
    } else if (char === 0x5d || char === 0x7d) depth--
  }
  return false
}

/** Counts the commas of each object before JSON.parse builds it. Expects a text that does not nest too deep. */
function hasTooManyKeys(text: string): boolean {
  // The shortest member is `"":0` with its comma.
  if (text.length < maxKeys * 5) return false
  const keys: number[] = []
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === quote) at = endOfString(text, at)
    else if (char === 0x7b) keys.push(1)
    else if (char === 0x5b) keys.push(-Infinity)
    else if (char === 0x5d || char === 0x7d) keys.pop()
    else if (char === 0x2c && ++keys[keys.length - 1]! > maxKeys) return true
  }
  return false
}

/** The index of the closing quote of the string that opens at `start`. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
    if (slashes % 2 === 0) return at
  }
  return text.length
}

function place(text: string, position: number): string {
  if (position >= text.length) return `its end (position ${text.length})`
  const before = text.slice(0, position)
  const line = before.split('\n').length
  return `position ${position} (line ${line}, column ${position - before.lastIndexOf('\n')})`
}

/** Half of a surrogate pair, as `JSON.stringify` writes it. A pair may stand there as two escapes, too. */
const escapes =
  /(?<!\\)((?:\\\\)*)(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\ud[89a-f][0-9a-f]{2})/g
const pair = '\\ud83d\\ude00'.length

/**
 * JSON that every parser can read. A text that was cut in the middle of an emoji ends in half a pair, for which
 * `JSON.stringify` has an escape and strict parsers have a refusal; in its place stands the character for what cannot be shown.
 */
export function wholeJson(json: string): string {
  if (!json.includes('\\ud')) return json
  return json.replace(
    escapes,
    (_, before: string, found: string) => before + (found.length === pair ? found : '\ufffd'),
  )
}
