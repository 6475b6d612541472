import { OracleError } from '../core/error.ts'
import type { RegisteredAction } from '../core/page.ts'
import type { JsonSchema, StandardSchema, ToolSchema } from '../core/tool-schema.ts'

const known = new WeakMap<object, JsonSchema>()

/** The schema as the model reads it. Throws where JSON Schema cannot express one: an empty schema would let anything pass. */
export async function toJsonSchema(name: string, schema: ToolSchema): Promise<JsonSchema> {
  let json = known.get(schema)
  if (json) return json
  try {
    json = await converted(schema)
  } catch (cause) {
    throw unsupported(name, (cause as Error).message, cause)
  }
  if (json.type !== undefined && json.type !== 'object')
    throw unsupported(name, `arguments are an object, and this is ${String(json.type)}`)
  known.set(schema, json)
  return json
}

async function converted(schema: ToolSchema): Promise<JsonSchema> {
  const { '~standard': standard, _zod, _def } = schema as Record<string, any> // any: another library's inside
  if (standard?.jsonSchema) return standard.jsonSchema.input({ target: 'draft-2020-12' })
  if (_zod)
    return (await import('zod/v4/core')).toJSONSchema(schema as never, {
      io: 'input',
      // The copy of zod that made the schema keeps its descriptions, and the copy that is loaded here may be another.
      override({ zodSchema, jsonSchema }) {
        const { description } = zodSchema as { description?: string }
        if (description !== undefined) jsonSchema.description ??= description
      },
    })
  if (_def?.typeName) return (await import('./zod3.ts')).fromZod3(schema)
  const plain = Object.getPrototypeOf(schema) === Object.prototype
  if (!standard && plain) return schema as JsonSchema
  throw new Error(`${standard?.vendor ?? 'its library'} has no JSON Schema for it`)
}

const unsupported = (name: string, why: string, cause?: unknown) =>
  new OracleError('schema_unsupported', `The schema of "${name}" cannot be sent: ${why}.`, {
    cause,
    hint: 'Use a zod object, another Standard Schema that knows JSON Schema, or JSON Schema itself.',
  })

/** The arguments as the schema parses them. The server does not check them: to the server the schema is data. */
export async function validated(schema: ToolSchema, args: unknown): Promise<unknown> {
  const { '~standard': standard } = schema as Partial<StandardSchema>
  if (!standard) return plainlyValid(schema as JsonSchema, args)
  const checked = await standard.validate(args)
  if (!checked.issues) return checked.value
  const faults = checked.issues.map(({ message, path = [] }) => {
    const where = path.map((key) => String(typeof key === 'object' ? key.key : key)).join('.')
    return where ? `${where}: ${message}` : message
  })
  throw misfit(faults)
}

const misfit = (faults: readonly string[]) =>
  new Error(`The arguments do not fit: ${faults.join('; ')}`)

/** Checks of a JSON Schema that required properties are there and of their types. The tool's function checks the rest. */
function plainlyValid({ required = [], properties = {} }: JsonSchema, args: unknown): unknown {
  const given = args as Record<string, unknown>
  const missing = (required as string[]).filter((name) => !Object.hasOwn(given, name))
  const wrong = Object.entries(properties as Record<string, { type?: unknown }>).flatMap(
    ([name, { type }]) => {
      const types = [type ?? []].flat()
      const fits = types.length === 0 || types.some((one) => isOf(one, given[name]))
      return fits || !Object.hasOwn(given, name) ? [] : [`${name}: expected ${types.join(' or ')}`]
    },
  )
  const faults = [...missing.map((name) => `${name}: missing`), ...wrong]
  if (faults.length > 0) throw misfit(faults)
  return args
}

function isOf(type: unknown, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'null' || value === null) return type === 'null' && value === null
  return typeof value === type && !(type === 'object' && Array.isArray(value))
}

/** Carries out an action of a page, with arguments that its schema takes. */
export async function executed(
  actions: ReadonlyMap<string, RegisteredAction>,
  name: string,
  args: unknown,
): Promise<unknown> {
  const action = actions.get(name)
  if (!action) throw new Error(`There is no action "${name}".`)
  return action.handler(await validated(action.parameters, args))
}
