import { refuseDoubtfulDigits } from './digits.ts'
import { invalid } from './refusal.ts'

const unsafeNames = new Set(['__proto__', 'constructor'])
const deepest = 64

/**
 * Returns a value that the database can store and return unchanged, and refuses any other. The HTTP layer has checked the
 * bodies of requests when it parsed them; nothing has checked the arguments that a model gives.
 */
export function safe<T>(value: T): T {
  check(value, '', 0)
  refuseDoubtfulDigits(value)
  return value
}

function check(value: unknown, path: string, depth: number): void {
  if (typeof value === 'string') {
    if (value.includes('\0') || !value.isWellFormed())
      throw invalid(path, 'the text holds U+0000 or half a surrogate pair')
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw invalid(path, 'the number is too large')
  } else if (typeof value === 'object' && value !== null) {
    if (depth > deepest) throw invalid(path, `it nests deeper than ${deepest} levels`)
    for (const [key, item] of Object.entries(value)) {
      const at = path === '' ? key : `${path}.${key}`
      if (unsafeNames.has(key)) throw invalid(at, `the key "${key}" is not accepted`)
      check(key, at, depth + 1)
      check(item, at, depth + 1)
    }
  }
}
