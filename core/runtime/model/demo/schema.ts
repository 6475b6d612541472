/** A JSON Schema, as far as the demonstration model reads it. */
export interface Schema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
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
  readonly additionalProperties?: boolean | Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, Schema>>
}

/** A place in the arguments that a value must be found for. */
export interface Field {
  readonly name: string
  readonly schema: Schema
  readonly type: string
  readonly required: boolean
}

/** The fields of an object schema, with references followed and alternatives decided. */
export function fieldsOf(schema: Schema, root: Schema = schema): Field[] {
  const { properties = {}, required = [] } = resolved(schema, root)
  return Object.entries(properties).map(([name, property]) => {
    const known = resolved(property, root)
    return { name, schema: known, type: typeOf(known), required: required.includes(name) }
  })
}

/** The schema behind references and wrappers; of alternatives the first that is not null. */
export function resolved(schema: Schema, root: Schema, depth = 0): Schema {
  if (depth > 4) return {}
  const named = schema.$ref?.match(/^#\/\$defs\/(.+)$/)?.[1]
  const target = named === undefined ? undefined : root.$defs?.[named]
  const choice = (schema.anyOf ?? schema.oneOf)?.find((one) => one.type !== 'null')
  const parts = [target, choice, ...(schema.allOf ?? []).slice(0, 5)].filter(
    (part) => part !== undefined,
  )
  return parts.reduce<Schema>(
    (merged, part) => ({ ...resolved(part, root, depth + 1), ...merged }),
    { ...schema, $ref: undefined, anyOf: undefined, oneOf: undefined, allOf: undefined },
  )
}

function typeOf({ type, enum: words, const: fixed, properties, items }: Schema): string {
  if (words ?? fixed) return 'enum'
  if (typeof type === 'string') return type
  if (Array.isArray(type)) return type.find((one) => one !== 'null') ?? 'string'
  if (properties) return 'object'
  return items ? 'array' : 'string'
}
