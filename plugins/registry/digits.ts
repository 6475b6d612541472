import { invalid } from './refusal.ts'
import { isObject, shown } from './wants.ts'

/** Sixteen digits or more in a row of digits and points, or a negative exponent: only such a number can lose digits. */
const suspicious = /[\d.]{16}|[eE]-\d/

/**
 * Refuses JSON in which a number has more digits than a double keeps: the registry would store another number than the
 * client wrote. Trailing zeros are no loss.
 */
export function refuseLostDigits(raw: Uint8Array | undefined): void {
  if (!raw || raw.length === 0) return
  refuseLostDigitsOf(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString('utf8'))
}

/** The same for JSON that is a text already. */
export function refuseLostDigitsOf(text: string): void {
  if (!suspicious.test(text)) return
  const lost: Lost[] = []
  try {
    JSON.parse(text, function reviver(key: string, value: unknown, context?: { source?: string }) {
      if (typeof value !== 'number' || lost.length > 0 || context?.source === undefined)
        return value
      if (losesDigits(context.source, value)) lost.push({ key, source: context.source, value })
      return value
    })
  } catch {
    return // a form, which holds no numbers
  }
  const [first] = lost
  if (first) throw lossy(first.key, first.source, first.value)
}

interface Lost {
  readonly key: string
  readonly source: string
  readonly value: number
}

const lossy = (path: string, source: string, value: number) =>
  invalid(
    path,
    `${source.slice(0, 60)} would be stored as ${value}`,
    'A number keeps 15 digits for certain. Send a longer one as a text.',
  )

/** Whether a number that was written in decimal is another one once it is a double. */
export function losesDigits(source: string, value: number): boolean {
  return significant(source) !== significant(String(value))
}

/** The sign, the digits and the power of ten of a decimal number, without zeros at either end. */
function significant(decimal: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(decimal) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const bare = digits.replace(/0+$/, '')
  if (bare === '') return '0'
  return `${sign}${bare}e${Number(exponent) - fraction.length + digits.length - bare.length}`
}

/** How deep a value is searched; the JSON of requests nests 64 levels at most. */
const deepest = 64

/**
 * Refuses a whole number beyond 2^53 with sixteen digits or more, in a value that came without its text: whether it has
 * lost digits cannot be seen any more.
 */
export function refuseDoubtfulDigits(value: unknown, path = '', depth = 0): void {
  if (typeof value === 'number') {
    if (!Number.isInteger(value) || Number.isSafeInteger(value)) return
    const [digits = ''] = significant(String(value)).replace('-', '').split('e')
    if (digits.length > 15)
      throw invalid(
        path,
        `${shown(value)} may have lost digits on the way`,
        'Send a whole number beyond 2^53 as a text.',
      )
  } else if (depth <= deepest && (Array.isArray(value) || isObject(value)))
    for (const [key, item] of Object.entries(value))
      refuseDoubtfulDigits(item, path === '' ? key : `${path}.${key}`, depth + 1)
}
