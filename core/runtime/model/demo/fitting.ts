import type { Finding, Kind } from './findings.ts'
import type { Field, JsonSchema } from './schema.ts'
import { words } from './words.ts'

/** Whether a field asks for values of a form, by its name and what it says of itself. */
export function takes({ name, type, schema }: Field, kind: Kind): boolean {
  if (type !== 'string') return false
  const says = words(`${name} ${schema.format ?? ''}`)
  const told = `${schema.description ?? ''} ${schema.pattern ?? ''}`
  switch (kind) {
    case 'did':
      return /\bdids?\b|did:|\^did/i.test(told) || says.some((word) => /^dids?$/.test(word))
    case 'url':
      return says.some((word) => ['url', 'uri', 'link', 'endpoint', 'href'].includes(word))
    case 'email':
      return says.some((word) => ['email', 'mail'].includes(word))
    case 'uuid':
      return says.some((word) => ['uuid', 'guid', 'id'].includes(word))
    case 'phone':
      return says.some((word) => ['phone', 'msisdn', 'mobile', 'telephone'].includes(word))
    case 'date':
      return says.some((word) =>
        ['date', 'day', 'time', 'from', 'until', 'since', 'start', 'end', 'at', 'on'].includes(
          word,
        ),
      )
    default:
      return false
  }
}

/** Whether a field takes a number. */
export function isNumeric({ type }: Field): boolean {
  return type === 'number' || type === 'integer'
}

/** Whether a field takes any text. */
export function isText({ type, schema }: Field): boolean {
  return type === 'string' && !schema.format
}

/** Whether a value that was found may stand in a field. */
export function fits(field: Field, value: Finding): boolean {
  if (field.schema.enum) return field.schema.enum.includes(value.value)
  if (!isNumeric(field)) return matchesText(field.schema, String(value.value))
  const number = asNumber(field, value)
  const { minimum = -Infinity, maximum = Infinity } = field.schema
  if (field.type === 'integer' && !Number.isInteger(number)) return false
  return number >= minimum && number <= maximum
}

/** A number that was found, as its field wants it. */
export function asNumber({ schema, name }: Field, { value, percent }: Finding): number {
  const number = Number(value)
  const most = schema.maximum ?? schema.exclusiveMaximum
  const says = `${name} ${schema.description ?? ''}`
  const isFraction =
    most === undefined ? /fraction|rate|ratio|share|probab|\b0\.\d/i.test(says) : most <= 1
  // 95 % of a fraction is 0.95. Rounded, because 0.07 is not what 7 / 100 is in binary.
  if (percent && isFraction) return Number((number / 100).toPrecision(12))
  return number
}

/** Whether a text is of a length that fits. A pattern is never tried: it may be a client's, and may never end. */
export function matchesText(
  { minLength = 0, maxLength = Infinity }: JsonSchema,
  text: string,
): boolean {
  if (text.length < minLength || text.length > maxLength) return false
  return true
}
