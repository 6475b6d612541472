/** The parts of a JSON Schema that the demonstration model reads. */
export interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly items?: JsonSchema
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly additionalProperties?: boolean | JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly allOf?: readonly JsonSchema[]
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, JsonSchema>>
}

/** A field of a tool's arguments. */
export interface Field {
  readonly name: string
  readonly schema: JsonSchema
  readonly type: string
  readonly required: boolean
}

/**
 * How much of a schema the model reads, because a client may have written it: how many fields, how many parts that make up
 * one field, how many values of one field, and how long a name. The bound on parts ends references that go in a circle.
 */
const mostFields = 64
const mostParts = 16
const mostValues = 64
const longestName = 64

const known = new WeakMap<JsonSchema, readonly Field[]>()

/** The fields of an object schema. References are resolved, and one of several alternatives is chosen. */
export function fieldsOf(schema: JsonSchema, root: JsonSchema = schema): readonly Field[] {
  if (schema !== root) return readFields(schema, root)
  let fields = known.get(schema)
  if (!fields) known.set(schema, (fields = readFields(schema, root)))
  return fields
}

function readFields(schema: JsonSchema, root: JsonSchema): Field[] {
  const { properties = {}, required = [] } = resolved(schema, root)
  const needed = new Set(required)
  const named = Object.entries(properties).filter(([name]) => name.length <= longestName)
  return named.slice(0, mostFields).map(([name, property]) => {
    const known = resolved(property, root)
    return { name, schema: known, type: typeOf(known), required: needed.has(name) }
  })
}

/** The schema behind references and wrappers. Of several alternatives it is the first that is not null. */
export function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  const room = { parts: mostParts }
  const { enum: values, ...whole } = merged(schema, root, room)
  return values ? { ...whole, enum: values.slice(0, mostValues) } : whole
}

function merged(
  schema: JsonSchema,
  root: JsonSchema,
  room: { parts: number },
  depth = 0,
): JsonSchema {
  if (depth > 4 || room.parts-- <= 0) return {}
  const named = schema.$ref?.match(/^#\/\$defs\/(.+)$/)?.[1]
  const target = named === undefined ? undefined : root.$defs?.[named]
  const choice = (schema.anyOf ?? schema.oneOf)?.find((one) => one.type !== 'null')
  const parts = [target, choice, ...(schema.allOf ?? []).slice(0, 5)].filter(
    (part) => part !== undefined,
  )
  return parts.reduce<JsonSchema>(
    (whole, part) => ({ ...merged(part, root, room, depth + 1), ...whole }),
    {
      ...schema,
      $ref: undefined,
      anyOf: undefined,
      oneOf: undefined,
      allOf: undefined,
    },
  )
}

function typeOf({ type, enum: words, const: fixed, properties, items }: JsonSchema): string {
  if (words ?? fixed) return 'enum'
  if (typeof type === 'string') return type
  if (Array.isArray(type)) return type.find((one) => one !== 'null') ?? 'string'
  if (properties) return 'object'
  return items ? 'array' : 'string'
}
