import { ScalarType, type JsonValue } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'

/** A number of a JSON text that a double cannot hold, as it stood there. */
export class LongNumber {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

/** Where such a number may be; short texts and most others have none. */
const suspicious = /\d{16}/
const keepDigits: Reviver = (_, value, { source = '' }) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source)
    ? new LongNumber(source)
    : value

/** Parses JSON without losing the digits of 64-bit integers that were not written as text. */
export function parseJson(text: string): JsonValue {
  if (!suspicious.test(text)) return JSON.parse(text) as JsonValue
  // The types do not know yet that a reviver is told the source.
  return JSON.parse(text, keepDigits as (key: string, value: unknown) => unknown) as JsonValue
}

/** JSON as everybody else has it, with the digits that a double keeps. */
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

/** A value for a scalar field; for one of 64 bits as text with every digit, however it was written. */
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

/** The parser would also take hexadecimal digits, and numbers with blanks around them. */
function checked(text: string): string {
  if (!number.test(text)) throw new RuntimeError('INVALID_INPUT', `"${text}" is no number.`)
  return text
}

/** `1e2` and `1.0` are whole numbers too; what is none stays as it is, for the parser to refuse. */
export function wholeNumber(text: string): string {
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
