import { unitOf, type Finding, type Kind } from './findings.ts'
import type { Field, JsonSchema } from './schema.ts'
import { mostDescription, words } from './words.ts'

/** Whether a field takes values of a form, by its name, its description and its format. */
export function takes({ name, type, schema }: Field, kind: Kind): boolean {
  if (type !== 'string') return false
  const says = words(`${name} ${schema.format ?? ''}`)
  switch (kind) {
    case 'did':
      return (
        saysDid(schema) || says.some((word) => /^dids?$/.test(word)) || words(name).at(-1) === 'id'
      )
    case 'url':
      return says.some((word) => ['url', 'uri', 'link', 'endpoint', 'href'].includes(word))
    case 'email':
      return says.some((word) => ['email', 'mail'].includes(word))
    case 'address':
      return (
        says.some((word) => addresses.has(word)) ||
        /\b(?:address|account|wallet|hash)\b/i.test(schema.description ?? '')
      )
    case 'uuid':
      return says.some((word) => ['uuid', 'guid', 'id'].includes(word))
    case 'phone':
      return says.some((word) => ['phone', 'msisdn', 'mobile', 'telephone'].includes(word))
    case 'date':
      return says.some((word) =>
        [
          'date',
          'day',
          'time',
          'from',
          'until',
          'since',
          'start',
          'end',
          'at',
          'on',
          'when',
        ].includes(word),
      )
    default:
      return false
  }
}

const saysDid = ({ description = '', pattern = '' }: JsonSchema): boolean =>
  /\bdids?\b|did:|\^did/i.test(`${description} ${pattern}`)

const addresses = new Set(
  'address account wallet holder owner sender recipient hash key id'.split(' '),
)

/** Whether a field takes a number. */
export function isNumeric({ type }: Field): boolean {
  return type === 'number' || type === 'integer'
}

/** Whether a field takes any text: one that is said to hold a DID takes no name. */
export function isText({ type, schema }: Field): boolean {
  return type === 'string' && !schema.format && !saysDid(schema)
}

/** Whether a field can take a value from the sentence. */
export function fits(field: Field, value: Finding): boolean {
  if (field.schema.enum) return field.schema.enum.includes(value.value)
  if (!isNumeric(field)) return matchesText(field.schema, String(value.value))
  const number = asNumber(field, value)
  const { minimum = -Infinity, maximum = Infinity } = field.schema
  const { exclusiveMinimum: above = -Infinity, exclusiveMaximum: below = Infinity } = field.schema
  if (field.type === 'integer' && !Number.isInteger(number)) return false
  return number >= minimum && number <= maximum && number > above && number < below
}

/** Whether a field says how many of something there are. */
export function isCount({ name, type }: Field): boolean {
  return type === 'integer' && words(name).some((word) => counts.has(word))
}

const counts = new Set('population count quantity number households people size total'.split(' '))

/** Whether a number is one of things: of "1000 stoves", and not of "1.5" or "10 %". */
export function isCounted(text: string, { value, percent, span, end }: Finding): boolean {
  const isWhole = Number.isInteger(Number(value)) && percent !== true && span === undefined
  return isWhole && /^\s+\p{L}{2,40}s\b/u.test(text.slice(end, end + 50))
}

/** The unit of a field that holds a length of time, in milliseconds; undefined for all other fields. */
export function unitOfField({ name, schema }: Field): number | undefined {
  for (const word of words(`${name} ${(schema.description ?? '').slice(0, mostDescription)}`)) {
    const unitMs = unitOf(word)
    if (unitMs !== undefined) return unitMs
  }
  return undefined
}

/**
 * A number from the sentence in the form that the field takes: 95 % is 0.95 for a field of fractions, two hours are 120 for
 * a field of minutes.
 */
export function asNumber(field: Field, { value, percent, span }: Finding): number {
  const { schema, name } = field
  const unitMs = span && unitOfField(field)
  if (span && unitMs) return Number(((Number(value) * span.unitMs) / unitMs).toPrecision(12))
  const number = Number(value)
  const most = schema.maximum ?? schema.exclusiveMaximum
  const says = `${name} ${schema.description ?? ''}`
  const isFraction =
    most === undefined ? /fraction|rate|ratio|share|probab|\b0\.\d/i.test(says) : most <= 1
  // Rounded to 12 digits, because 0.7 / 100 in binary is 0.006999999999999999.
  if (percent && isFraction) return Number((number / 100).toPrecision(12))
  return number
}

/** Whether the length of a text fits. It never runs a pattern, because a client may have written one that never ends. */
export function matchesText(
  { minLength = 0, maxLength = Infinity }: JsonSchema,
  text: string,
): boolean {
  if (text.length < minLength || text.length > maxLength) return false
  return true
}
