const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openers = [0x5b, 0x7b]
const closerOf: Readonly<Record<number, number>> = { 0x5b: 0x5d, 0x7b: 0x7d }
const openBrace = 0x7b

const scalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y
const escape = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y

/**
 * The position at which a text stops being JSON: the token that does not belong there, or the end.
 * Called for broken JSON only, of up to a whole body, so it reads each character once.
 */
export function breakIn(text: string): number {
  const open: number[] = []
  let wants: 'value' | 'key' | 'colon' | 'next' = 'value'
  /** Whether `at` stands right behind an opening bracket, where a closing one may follow at once. */
  let empty = false
  let at = 0
  for (;;) {
    at = skipSpace(text, at)
    const char = text.charCodeAt(at)
    const opener = open.at(-1)
    if (opener !== undefined && char === closerOf[opener] && (wants === 'next' || empty)) {
      open.pop()
      wants = 'next'
      at++
    } else if (wants === 'next') {
      if (char !== comma || opener === undefined) return at
      wants = opener === openBrace ? 'key' : 'value'
      at++
    } else if (wants === 'colon') {
      if (char !== colon) return at
      wants = 'value'
      at++
    } else if (char === quote) {
      const end = endOfString(text, at)
      if (end < 0) return at
      wants = wants === 'key' ? 'colon' : 'next'
      at = end
    } else if (wants === 'key') return at
    else if (openers.includes(char)) {
      open.push(char)
      wants = char === openBrace ? 'key' : 'value'
      empty = true
      at++
      continue
    } else {
      scalar.lastIndex = at
      if (!scalar.test(text)) return at
      wants = 'next'
      at = scalar.lastIndex
    }
    empty = false
  }
}

function skipSpace(text: string, from: number): number {
  for (let at = from; ; at++) {
    const char = text.charCodeAt(at)
    if (char !== 0x20 && char !== 0x0a && char !== 0x0d && char !== 0x09) return at
  }
}

/** The position behind the closing quote of the string at `start`; -1 when the string has none or holds what JSON forbids. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === quote) return at + 1
    if (char < 0x20) return -1
    if (char === backslash) {
      escape.lastIndex = at + 1
      if (!escape.test(text)) return -1
      at = escape.lastIndex - 1
    }
  }
  return -1
}
