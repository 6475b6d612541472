import { RuntimeError } from '../../../errors.ts'
import { checkKey, checkText } from '../../base/safe-json.ts'

/** Names and values of a query or a form. A name that comes twice has an array. */
export type Pairs = Record<string, string | string[]>

/** Reads `a=1&b=2`, the text of a query or of a urlencoded form; `what` names it in a fault. */
export function readPairs(text: string, what: 'query' | 'form'): Pairs {
  const pairs: Pairs = {}
  if (text === '') return pairs
  for (const part of text.split('&')) {
    if (part === '') continue
    const equals = part.indexOf('=')
    const name = decode(equals < 0 ? part : part.slice(0, equals), what)
    const value = equals < 0 ? '' : decode(part.slice(equals + 1), what)
    checkKey(name)
    checkText(value, name)
    if (!Object.hasOwn(pairs, name)) pairs[name] = value
    else {
      const before = pairs[name]
      if (Array.isArray(before)) before.push(value)
      else pairs[name] = [before ?? '', value]
    }
  }
  return pairs
}

const encoded = /[+%]/

function decode(text: string, what: string): string {
  if (!encoded.test(text)) return text
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch (cause) {
    throw new RuntimeError(
      'BAD_REQUEST',
      `The ${what} holds a percent-encoding that is not UTF-8.`,
      { cause },
    )
  }
}
