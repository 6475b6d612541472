import type { Message } from '#core'
import { fillArguments } from './demo/arguments.ts'
import { fieldsOf, resolved, type JsonSchema } from './demo/schema.ts'

/** How deep a value is filled, and how much of the words is read. */
const deepest = 8
const mostText = 4000

/**
 * A value that fits a schema, from what the user wrote: what the words say of a field goes there, and a required field of
 * which they say nothing gets the plainest value that fits.
 */
export function fillObject(schema: JsonSchema, messages: readonly Message[], now: Date): unknown {
  const text = messages
    .flatMap(({ role, content }) => (role === 'user' ? [content] : []))
    .join(' ')
    .slice(0, mostText)
  const { args } = fillArguments(schema, { text, tool: '', now })
  return filled(schema, args, { root: schema, text, now }, 0)
}

interface Filling {
  readonly root: JsonSchema
  readonly text: string
  readonly now: Date
}

/** The value that the words gave, with what is still required. */
function filled(schema: JsonSchema, given: unknown, filling: Filling, depth: number): unknown {
  const own = resolved(schema, filling.root)
  if (!own.properties || depth > deepest) return given ?? plainest(own, filling, depth)
  const value: Record<string, unknown> = { ...(given as object | undefined) }
  for (const { name, schema: field, required } of fieldsOf(own, filling.root))
    if (required || value[name] !== undefined)
      value[name] = filled(field, value[name], filling, depth + 1)
  return value
}

function plainest(schema: JsonSchema, { text, now, root }: Filling, depth: number): unknown {
  const { enum: values, const: fixed, default: usual, type, items, minItems = 0 } = schema
  if (fixed !== undefined) return fixed
  if (usual !== undefined) return usual
  if (values) return values[0]
  switch (Array.isArray(type) ? type[0] : type) {
    case 'null':
      return null
    case 'boolean':
      return false
    case 'number':
    case 'integer':
      return plainNumber(schema)
    case 'array': {
      const one = () => filled(items ?? {}, undefined, { text, now, root }, depth + 1)
      return Array.from({ length: Math.min(minItems, 16) }, one)
    }
    case 'object':
      return {}
    default:
      return plainText(schema, text, now)
  }
}

function plainNumber({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum }: JsonSchema) {
  const step = type === 'integer' ? 1 : 0.001
  const least = exclusiveMinimum === undefined ? minimum : exclusiveMinimum + step
  const most = exclusiveMaximum === undefined ? maximum : exclusiveMaximum - step
  return Math.min(Math.max(0, least ?? 0), most ?? Infinity)
}

function plainText({ format, minLength = 0, maxLength }: JsonSchema, text: string, now: Date) {
  const iso = now.toISOString()
  const ofFormat: Readonly<Record<string, string>> = {
    'date-time': iso,
    date: iso.slice(0, 10),
    time: iso.slice(11, 19),
    uri: 'https://example.org',
    email: 'demo@example.org',
    uuid: '00000000-0000-4000-8000-000000000000',
  }
  if (format && ofFormat[format] !== undefined) return ofFormat[format]
  return text.trim().slice(0, maxLength).padEnd(minLength, '.')
}
