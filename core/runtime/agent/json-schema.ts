type Keyword = (value: unknown, path: string) => string | undefined

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const types = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])

const text: Keyword = (value, path) => (typeof value === 'string' ? undefined : `${path} is text`)
const list: Keyword = (value, path) => (Array.isArray(value) ? undefined : `${path} is a list`)
const amount: Keyword = (value, path) =>
  typeof value === 'number' ? undefined : `${path} is a number`
const size: Keyword = (value, path) =>
  Number.isInteger(value) && Number(value) >= 0 ? undefined : `${path} is a whole number from 0`
const names: Keyword = (value, path) =>
  Array.isArray(value) && value.every((name) => typeof name === 'string')
    ? undefined
    : `${path} is a list of names`
const schemas: Keyword = (value, path) =>
  Array.isArray(value) && value.length > 0
    ? firstOf(value.map((schema, i) => () => schemaFault(schema, `${path}.${i}`)))
    : `${path} is a list of schemas`
const schemaMap: Keyword = (value, path) =>
  isObject(value)
    ? firstOf(
        Object.entries(value).map(
          ([name, schema]) =>
            () =>
              schemaFault(schema, `${path}.${name}`),
        ),
      )
    : `${path} is a map of names to schemas`
const type: Keyword = (value, path) => {
  const named = Array.isArray(value) ? value : [value]
  const wrong = named.find((name) => !types.has(name))
  if (wrong === undefined && named.length > 0) return undefined
  return `${path} is ${JSON.stringify(value)}, not one of ${[...types].join(', ')}`
}
const pattern: Keyword = (value, path) => {
  if (typeof value !== 'string') return `${path} is text`
  try {
    new RegExp(value, 'u')
    return undefined
  } catch {
    return `${path} is not a regular expression`
  }
}

/** The keywords whose form is checked. Any other may stand in a schema and means what its reader makes of it. */
const keywords: Readonly<Record<string, Keyword>> = {
  type,
  pattern,
  $ref: text,
  title: text,
  description: text,
  format: text,
  required: names,
  enum: list,
  properties: schemaMap,
  patternProperties: schemaMap,
  $defs: schemaMap,
  definitions: schemaMap,
  items: (value, path) => (Array.isArray(value) ? schemas(value, path) : schemaFault(value, path)),
  prefixItems: schemas,
  additionalProperties: schemaFault,
  propertyNames: schemaFault,
  contains: schemaFault,
  not: schemaFault,
  if: schemaFault,
  then: schemaFault,
  else: schemaFault,
  allOf: schemas,
  anyOf: schemas,
  oneOf: schemas,
  minimum: amount,
  maximum: amount,
  multipleOf: amount,
  minLength: size,
  maxLength: size,
  minItems: size,
  maxItems: size,
  minProperties: size,
  maxProperties: size,
}

/** What is wrong with a JSON Schema, or undefined. Not whether it can be met: whether it can be read. */
export function schemaFault(schema: unknown, path: string): string | undefined {
  if (typeof schema === 'boolean') return undefined
  if (!isObject(schema)) return `${path} is neither an object nor true or false`
  return firstOf(
    Object.entries(schema).map(
      ([name, value]) =>
        () =>
          Object.hasOwn(keywords, name) ? keywords[name]?.(value, `${path}.${name}`) : undefined,
    ),
  )
}

/** What is wrong with a schema of a tool's arguments, which are an object. */
export function argumentsFault(schema: unknown): string | undefined {
  if (!isObject(schema)) return 'it is not an object'
  if (schema.type !== undefined && schema.type !== 'object')
    return `its type is ${JSON.stringify(schema.type)}, and the arguments of a tool are an "object"`
  return schemaFault(schema, 'schema')
}

function firstOf(checks: readonly (() => string | undefined)[]): string | undefined {
  for (const check of checks) {
    const fault = check()
    if (fault !== undefined) return fault
  }
  return undefined
}
