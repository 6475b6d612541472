import type { Message } from '#core'
import { fillArguments } from './read/arguments.ts'
import type { Now } from './read/moments.ts'
import { fieldsOf, resolved, type JsonSchema } from './read/schema.ts'

/** How deep the model fills objects within objects. */
const deepest = 6
/** How many entries it makes for a list that may not be empty. */
const mostEntries = 8
/** How much of a text the model writes into a field that takes any. */
const longest = 200

/**
 * An answer that fits a JSON Schema: what the newest message says of its fields, and for the rest the plainest value that
 * each field takes.
 */
export function objectFor(
  schema: JsonSchema,
  messages: readonly Message[],
  now: Now,
): Record<string, unknown> {
  const said = messages.findLast(({ role }) => role === 'user')?.content ?? ''
  const { args } = fillArguments(schema, { text: said.slice(0, 4096), tool: '', now })
  return completed(schema, schema, args, said, 0)
}

function completed(
  schema: JsonSchema,
  root: JsonSchema,
  args: Readonly<Record<string, unknown>>,
  said: string,
  depth: number,
): Record<string, unknown> {
  const whole = { ...args }
  for (const { name, schema: field, required } of fieldsOf(schema, root))
    if (required && whole[name] === undefined) whole[name] = plainest(field, root, said, depth)
  return whole
}

/** A value that a schema takes, made of nothing. */
function plainest(field: JsonSchema, root: JsonSchema, said: string, depth: number): unknown {
  const {
    const: fixed,
    enum: values,
    default: usual,
    type,
    format,
    minimum,
    exclusiveMinimum,
  } = field
  if (usual !== undefined) return usual
  if (fixed !== undefined) return fixed
  if (values) return values[0]
  const kind = Array.isArray(type) ? type[0] : type
  if (kind === 'integer' || kind === 'number')
    return minimum ?? (exclusiveMinimum === undefined ? 0 : Math.floor(exclusiveMinimum) + 1)
  if (kind === 'boolean') return false
  if (kind === 'null') return null
  if (kind === 'array') return listOf(field, root, said, depth)
  if (kind === 'object' || field.properties)
    return depth < deepest ? completed(field, root, {}, said, depth + 1) : {}
  return textOf(field, format, said)
}

function listOf(field: JsonSchema, root: JsonSchema, said: string, depth: number): unknown[] {
  const count = Math.min(field.minItems ?? 0, mostEntries)
  const item = resolved(field.items ?? {}, root)
  return Array.from({ length: count }, () => plainest(item, root, said, depth + 1))
}

const samples: Readonly<Record<string, string>> = {
  date: '1970-01-01',
  'date-time': '1970-01-01T00:00:00Z',
  time: '00:00:00',
  email: 'nobody@example.org',
  uri: 'https://example.org',
  uuid: '00000000-0000-4000-8000-000000000000',
}

function textOf(
  { minLength = 0, maxLength = longest }: JsonSchema,
  format: string | undefined,
  said: string,
): string {
  const sample = format === undefined ? undefined : samples[format]
  const text = sample ?? said.replace(/\s+/g, ' ').trim().slice(0, Math.min(maxLength, longest))
  return text.padEnd(minLength, '-').slice(0, Math.max(minLength, maxLength))
}
