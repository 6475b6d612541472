import { ScalarType, type JsonValue } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'

/** The text of a JSON number that a double cannot hold exactly. */
export class LongNumber {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

/** A text without this pattern has no long number, and needs no reviver. */
const suspicious = /\d{16}/
const keepDigits: Reviver = (_, value, { source = '' }) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source)
    ? new LongNumber(source)
    : value

/** Parses JSON without losing the digits of 64-bit integers that were not written as text. */
export function parseJson(text: string): JsonValue {
  if (!suspicious.test(text)) return JSON.parse(text) as JsonValue
  // The types of TypeScript do not know yet that a reviver gets the source text.
  return JSON.parse(text, keepDigits as (key: string, value: unknown) => unknown) as JsonValue
}

/** Replaces each LongNumber by the nearest double, as JSON.parse would. */
export function withDoubles(json: JsonValue): JsonValue {
  if ((json as unknown) instanceof LongNumber) return Number((json as unknown as LongNumber).text)
  if (typeof json !== 'object' || json === null) return json
  if (Array.isArray(json)) return json.map(withDoubles)
  return Object.fromEntries(Object.entries(json).map(([key, item]) => [key, withDoubles(item)]))
}

const long = new Set([
  ScalarType.INT64,
  ScalarType.UINT64,
  ScalarType.SINT64,
  ScalarType.FIXED64,
  ScalarType.SFIXED64,
])

const textual = new Set([ScalarType.STRING, ScalarType.BYTES, ScalarType.BOOL])
const number = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$|^(NaN|-?Infinity)$/

/** The value for a scalar field. A field of 64 bits gets a text with every digit, whether JSON had a number or a string. */
export function scalarInput(scalar: ScalarType | undefined, json: JsonValue): JsonValue {
  const isLong = (json as unknown) instanceof LongNumber
  const text = isLong ? (json as unknown as LongNumber).text : json
  if (scalar !== undefined && long.has(scalar))
    return typeof text === 'string' ? wholeNumber(checked(text)) : text
  if (isLong) return Number(text)
  return typeof json === 'string' && scalar !== undefined && !textual.has(scalar)
    ? checked(json)
    : json
}

/** Refuses texts that are no decimal numbers: the parser of protobuf would also accept hexadecimal digits and blanks. */
function checked(text: string): string {
  if (!number.test(text)) throw new RuntimeError('INVALID_INPUT', `"${text}" is no number.`)
  return text
}

/** Writes a whole number such as `1e2` or `1.0` in digits only. Any other text stays as it is, and the parser refuses it. */
function wholeNumber(text: string): string {
  const match = /^(-?)(\d{1,40})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text)
  if (match === null) return text
  const [, sign = '', whole = '', fraction = '', power = '0'] = match
  const shift = Number(power)
  if (Math.abs(shift) > 40) return text
  const digits = whole + fraction
  const end = whole.length + shift
  if (/[1-9]/.test(digits.slice(Math.max(end, 0)))) return text
  return `${sign}${digits.slice(0, Math.max(end, 0)).padEnd(end, '0') || '0'}`
}
