import { RuntimeError } from '../errors.ts'

/** How deep JSON may nest. */
export const maxDepth = 64

/**
 * Parses JSON from outside. Refuses what is no JSON, nests deeper than 64 levels, names a key
 * `__proto__` or `constructor` in any spelling, holds U+0000 or half a surrogate pair in a string,
 * or a number that no double can hold.
 */
export function parseJson(text: string): unknown {
  if (nestsTooDeep(text))
    throw new RuntimeError('TOO_DEEP', `The JSON nests deeper than ${maxDepth} levels.`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new RuntimeError('INVALID_JSON', `The JSON is broken at ${place(text, breakIn(text))}.`)
  }
  // A full look costs as much as parsing, so it is taken only where the text gives a reason to.
  if (suspicious.test(text)) checkValue(value, '')
  return value
}

const suspicious = /\\u|__proto__|constructor|[eE]\+?\d{3}|\d{309}/

function checkValue(value: unknown, path: string): void {
  if (typeof value === 'string') checkText(value, path)
  else if (typeof value === 'number') {
    if (!Number.isFinite(value))
      throw new RuntimeError('INVALID_INPUT', `The number at "${path}" is too large.`, {
        details: [{ path, message: 'too large for a number' }],
      })
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) checkValue(item, join(path, String(index)))
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      checkKey(key, path)
      checkValue(item, join(path, key))
    }
  }
}

const join = (path: string, key: string) => (path === '' ? key : `${path}.${key}`)

/** Refuses the two names through which an object's prototype is reached. */
export function checkKey(key: string, path = ''): void {
  if (key === '__proto__' || key === 'constructor')
    throw new RuntimeError(
      'UNSAFE_KEY',
      `The key "${key}"${path === '' ? '' : ` in "${path}"`} is not accepted.`,
    )
  checkText(key, path)
}

/** Refuses U+0000, which databases cannot store, and halves of surrogate pairs, which UTF-8 cannot write. */
export function checkText(text: string, path: string): void {
  const what = text.includes('\0') ? 'U+0000' : text.isWellFormed() ? '' : 'half a surrogate pair'
  if (what !== '')
    throw new RuntimeError(
      'UNSAFE_TEXT',
      `The text${path === '' ? '' : ` at "${path}"`} holds ${what}.`,
    )
}

const quote = 0x22
const backslash = 0x5c

/** Counts brackets outside strings before anything is built, so that a million of them cost nothing. */
function nestsTooDeep(text: string): boolean {
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

/** The index of the closing quote of the string that opens at `start`. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
    if (slashes % 2 === 0) return at
  }
  return text.length
}

const token =
  /[ \t\n\r]*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y

/**
 * Where JSON stops making sense. V8 says it only sometimes, and quotes the body while it does; a
 * body can hold a secret, so the place is found here and only the place is told.
 */
function breakIn(text: string): number {
  const open: string[] = []
  let wants: 'value' | 'key' | 'colon' | 'next' = 'value'
  let mayClose = false
  for (let at = 0; ;) {
    token.lastIndex = at
    const match = token.exec(text)
    const start = match ? token.lastIndex - match[0].trimStart().length : skipSpace(text, at)
    if (match === null) return start
    const [, mark, string] = match
    if (mark === '}' || mark === ']') {
      const opener = mark === '}' ? '{' : '['
      if (open.pop() !== opener || !(wants === 'next' || mayClose)) return start
      wants = 'next'
    } else if (wants === 'next') {
      if (mark !== ',' || open.length === 0) return start
      wants = open.at(-1) === '{' ? 'key' : 'value'
    } else if (wants === 'colon') {
      if (mark !== ':') return start
      wants = 'value'
    } else if (wants === 'key') {
      if (string === undefined) return start
      wants = 'colon'
    } else if (mark === '{' || mark === '[') {
      open.push(mark)
      wants = mark === '{' ? 'key' : 'value'
      mayClose = true
      at = token.lastIndex
      continue
    } else if (mark !== undefined) return start
    else wants = 'next'
    mayClose = false
    at = token.lastIndex
  }
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (' \t\n\r'.includes(text.charAt(at)) && at < text.length) at++
  return at
}

function place(text: string, position: number): string {
  if (position >= text.length) return `its end (position ${text.length})`
  const before = text.slice(0, position)
  const line = before.split('\n').length
  return `position ${position} (line ${line}, column ${position - before.lastIndexOf('\n')})`
}
