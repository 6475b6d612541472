/** What the provider's mode for objects does not know of JSON Schema: whoever asked checks the answer anyway. */
const unknown: ReadonlySet<string> = new Set([
  '$schema',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'default',
])

/** How deep a schema is rewritten; what lies deeper stays as it is. */
const deepest = 32

/** A schema as the provider's mode for objects takes it: each object says that it has no other fields. */
export function strictSchema(schema: unknown, depth = 0): unknown {
  if (typeof schema !== 'object' || schema === null || depth > deepest) return schema
  if (Array.isArray(schema)) return schema.map((each) => strictSchema(each, depth + 1))
  const made: Record<string, unknown> = {}
  for (const [word, value] of Object.entries(schema)) {
    if (unknown.has(word)) continue
    made[word] = holdsSchemas.has(word)
      ? mapped(value, depth + 1)
      : isData.has(word)
        ? value
        : strictSchema(value, depth + 1)
  }
  if (made.type === 'object') made.additionalProperties = false
  return made
}

const holdsSchemas: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions'])
const isData: ReadonlySet<string> = new Set(['enum', 'const', 'required', 'examples'])

/** Names of fields are no words of the schema. */
function mapped(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, each]) => [name, strictSchema(each, depth)])
  return Object.fromEntries(entries)
}
