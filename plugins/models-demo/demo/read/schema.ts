import { meaning, mostDescription, Stems } from './words.ts'

/** The parts of a JSON Schema that the demonstration model reads. */
export interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly title?: string
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
  /** The values of alternatives that are one value each, with their descriptions; the model works them out. */
  readonly members?: readonly { readonly value: unknown; readonly about: string }[]
  /** The alternatives of which the first stands here. */
  readonly alternatives?: readonly JsonSchema[]
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
  const fixed = membersOf(schema.anyOf ?? schema.oneOf)
  if (fixed) {
    const { anyOf: _, oneOf: __, ...rest } = schema
    return { ...rest, enum: fixed.map(({ value }) => value), members: fixed }
  }
  const named = schema.$ref?.match(/^#\/\$defs\/(.+)$/)?.[1]
  const target = named === undefined ? undefined : root.$defs?.[named]
  const choice = (schema.anyOf ?? schema.oneOf)?.find((one) => one.type !== 'null')
  const objects = (schema.anyOf ?? schema.oneOf)?.filter(({ type }) => type !== 'null') ?? []
  const parts = [target, choice, ...(schema.allOf ?? []).slice(0, 5)].filter(
    (part) => part !== undefined,
  )
  return parts.reduce<JsonSchema>(
    (whole, part) => ({ ...merged(part, root, room, depth + 1), ...whole }),
    {
      ...schema,
      ...(objects.length > 1 && { alternatives: objects }),
      $ref: undefined,
      anyOf: undefined,
      oneOf: undefined,
      allOf: undefined,
    },
  )
}

/** The values of alternatives that are one value each; undefined for all other alternatives. */
function membersOf(alternatives: readonly JsonSchema[] | undefined): JsonSchema['members'] {
  const all = alternatives?.filter(({ type }) => type !== 'null').slice(0, mostValues) ?? []
  const isFixed = ({ const: value, enum: values }: JsonSchema) =>
    value !== undefined || values?.length === 1
  if (all.length < 2 || !all.every(isFixed)) return undefined
  return all.map(({ const: value, enum: values, title = '', description = '' }) => ({
    value: value ?? values?.[0],
    about: `${title} ${description}`,
  }))
}

/** Of several objects that a schema may be, the one whose words are most in a text, or the first. */
export function alternativeFor(schema: JsonSchema, root: JsonSchema, text: string): JsonSchema {
  const all = (schema.alternatives ?? schema.anyOf ?? schema.oneOf ?? []).slice(0, mostParts)
  const objects = all.map((one) => resolved(one, root)).filter(({ properties }) => properties)
  if (objects.length < 2) return schema
  const said = new Stems(meaning(text.slice(0, longestText)))
  const score = (one: JsonSchema) => {
    const fixed = Object.values(one.properties ?? {}).flatMap(({ const: value }) => value ?? [])
    const about = `${fixed.join(' ')} ${one.title ?? ''} ${(one.description ?? '').slice(0, mostDescription)}`
    return new Set(meaning(about).filter((word) => said.likeness(word) > 0)).size
  }
  const best = objects.reduce((most, one) => (score(one) > score(most) ? one : most))
  const { alternatives: _, anyOf: __, oneOf: ___, ...rest } = schema
  return { ...rest, ...best }
}

/** How many characters of a sentence tell alternatives apart. */
const longestText = 2000

function typeOf({ type, enum: words, const: fixed, properties, items }: JsonSchema): string {
  if (words ?? fixed) return 'enum'
  if (typeof type === 'string') return type
  if (Array.isArray(type)) return type.find((one) => one !== 'null') ?? 'string'
  if (properties) return 'object'
  return items ? 'array' : 'string'
}
