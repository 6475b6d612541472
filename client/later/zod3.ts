import type { JsonSchema } from '../core/tool-schema.ts'

type Def = Record<string, any> // any: zod 3 has no public types for its definitions
type Zod3 = { readonly _def: Def; isOptional(): boolean }

/** A zod 3 schema as JSON Schema, for those kinds that JSON can express. */
export function fromZod3(schema: unknown): JsonSchema {
  const { _def: def } = schema as Zod3
  const json = ofKind(def)
  return def.description === undefined ? json : { ...json, description: def.description }
}

function ofKind(def: Def): JsonSchema {
  const kind = String(def.typeName).replace(/^Zod/, '')
  switch (kind) {
    case 'String':
      return { type: 'string', ...stringChecks(def.checks ?? []) }
    case 'Number':
      return { type: 'number', ...numberChecks(def.checks ?? []) }
    case 'BigInt':
      return { type: 'integer' }
    case 'Boolean':
      return { type: 'boolean' }
    case 'Null':
      return { type: 'null' }
    case 'Any':
    case 'Unknown':
      return {}
    case 'Literal':
      return { const: def.value }
    case 'Enum':
      return { type: 'string', enum: def.values }
    case 'NativeEnum': {
      // A numeric enum also maps its numbers back to names.
      const names = Object.keys(def.values).filter((key) => Number.isNaN(Number(key)))
      return { enum: names.map((name) => def.values[name]) }
    }
    case 'Object':
      return objectOf(def)
    case 'Record':
      return { type: 'object', additionalProperties: fromZod3(def.valueType) }
    case 'Array':
      return {
        type: 'array',
        items: fromZod3(def.type),
        ...bound('minItems', def.minLength ?? def.exactLength),
        ...bound('maxItems', def.maxLength ?? def.exactLength),
      }
    case 'Set':
      return { type: 'array', uniqueItems: true, items: fromZod3(def.valueType) }
    case 'Tuple':
      return {
        type: 'array',
        prefixItems: def.items.map(fromZod3),
        items: def.rest ? fromZod3(def.rest) : false,
        minItems: def.items.length,
      }
    case 'Union':
      return { anyOf: def.options.map(fromZod3) }
    case 'DiscriminatedUnion':
      return { anyOf: [...def.options.values()].map(fromZod3) }
    case 'Intersection':
      return { allOf: [fromZod3(def.left), fromZod3(def.right)] }
    case 'Nullable':
      return { anyOf: [fromZod3(def.innerType), { type: 'null' }] }
    case 'Default':
      return { ...fromZod3(def.innerType), default: def.defaultValue() }
    case 'Optional':
    case 'Catch':
    case 'Readonly':
      return fromZod3(def.innerType)
    case 'Branded':
      return fromZod3(def.type)
    case 'Effects':
      return fromZod3(def.schema)
    case 'Pipeline':
      return fromZod3(def.in)
    default:
      throw new Error(`JSON has nothing for zod's ${kind}`)
  }
}

function objectOf(def: Def): JsonSchema {
  const shape = Object.entries(def.shape() as Record<string, Zod3>)
  const required = shape.filter(([, one]) => !one.isOptional()).map(([name]) => name)
  const closed = def.catchall?._def.typeName === 'ZodNever'
  return {
    type: 'object',
    properties: Object.fromEntries(shape.map(([name, one]) => [name, fromZod3(one)])),
    ...(required.length > 0 && { required }),
    ...(closed
      ? def.unknownKeys === 'strict' && { additionalProperties: false }
      : { additionalProperties: fromZod3(def.catchall) }),
  }
}

interface Check {
  readonly kind: string
  readonly value?: number
  readonly inclusive?: boolean
  readonly regex?: RegExp
}

function stringChecks(checks: readonly Check[]): JsonSchema {
  const formats: Record<string, string> = {
    email: 'email',
    url: 'uri',
    uuid: 'uuid',
    datetime: 'date-time',
    date: 'date',
    time: 'time',
  }
  const json: Record<string, unknown> = {}
  for (const { kind, value, regex } of checks) {
    if (kind === 'min' || kind === 'length') json.minLength = value
    if (kind === 'max' || kind === 'length') json.maxLength = value
    if (kind === 'regex') json.pattern = regex?.source
    if (formats[kind]) json.format = formats[kind]
  }
  return json
}

function numberChecks(checks: readonly Check[]): JsonSchema {
  const json: Record<string, unknown> = {}
  for (const { kind, value, inclusive } of checks) {
    if (kind === 'int') json.type = 'integer'
    if (kind === 'min') json[inclusive ? 'minimum' : 'exclusiveMinimum'] = value
    if (kind === 'max') json[inclusive ? 'maximum' : 'exclusiveMaximum'] = value
    if (kind === 'multipleOf') json.multipleOf = value
  }
  return json
}

const bound = (name: string, limit: { value: number } | null | undefined) =>
  limit ? { [name]: limit.value } : {}
