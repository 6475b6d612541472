import { isRecord } from '../../base/fields.ts'

/**
 * What the beginning of a JSON object holds so far. A string that is cut off ends where it was cut. A key without a value
 * is left out, and so is a word or a number that may go on. Undefined when the text does not begin an object.
 */
export function partialObject(text: string): Record<string, unknown> | undefined {
  const completed = complete(text)
  if (completed === undefined) return undefined
  try {
    const value: unknown = JSON.parse(completed)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** How deep an object may nest; `partialObject` does not read a deeper one. */
const maxDepth = 64

/** The text up to the end of its last value, or up to the cut in a string, with the quotes and brackets that close it. */
function complete(text: string): string | undefined {
  const closers: string[] = []
  /** The last place where the text, with these closers behind it, is JSON. */
  let sound: { readonly end: number; readonly closers: readonly string[] } | undefined
  const here = (end: number) => (sound = { end, closers: [...closers] })
  /** In an object, whether a key or a value comes next. */
  let expectsKey = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!
    if (char === '"') {
      const end = endOfString(text, at)
      if (end === undefined) {
        if (expectsKey) break
        return text.slice(0, at) + mendedString(text.slice(at)) + closers.toReversed().join('')
      }
      at = end
      if (!expectsKey) here(at + 1)
    } else if (char === '{' || char === '[') {
      if (closers.length === maxDepth) return undefined
      closers.push(char === '{' ? '}' : ']')
      expectsKey = char === '{'
      here(at + 1)
    } else if (char === '}' || char === ']') {
      if (closers.pop() !== char) return undefined
      expectsKey = false
      here(at + 1)
    } else if (char === ':') expectsKey = false
    else if (char === ',') expectsKey = closers.at(-1) === '}'
    else if (/[\w.+-]/.test(char)) {
      const { length } = /^[\w.+-]+/.exec(text.slice(at, at + 400))![0]
      at += length - 1
      // A word or number at the very end of the text may go on.
      if (at + 1 < text.length) here(at + 1)
    }
  }
  return sound && text.slice(0, sound.end) + sound.closers.toReversed().join('')
}

/** The index of the closing quote; undefined when the string goes on. */
function endOfString(text: string, start: number): number | undefined {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at
  }
  return undefined
}

/** A string that was cut off, without the half of an escape or of a surrogate pair at its end. */
function mendedString(text: string): string {
  return `${text.replace(/(?<!\\)((?:\\\\)*)\\(u[\da-fA-F]{0,3})?$/, '$1').replace(/(\\u[dD][89abAB][\da-fA-F]{2}|[\ud800-\udbff])$/, '')}"`
}
