import { isRecord } from '../../base/fields.ts'

/** How many bytes of JSON one schema of a client may have. */
const schemaBytes = 32 * 1024
/** The same for all schemas of a message together. */
export const allSchemaBytes = 128 * 1024
const schemaDepth = 32

type Keyword = (value: unknown, path: string) => string | undefined

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
/** A reference leads nowhere else: a model's provider would load a schema from another place. */
const reference: Keyword = (value, path) => {
  if (typeof value !== 'string') return `${path} is text`
  if (value.startsWith('#')) return undefined
  return `${path} is "${value.slice(0, 60)}", and a reference stays inside its schema: it begins with "#"`
}
const schemas: Keyword = (value, path) => {
  if (!Array.isArray(value) || value.length === 0) return `${path} is a list of schemas`
  return firstFault(value.entries(), path)
}
const schemaMap: Keyword = (value, path) =>
  isRecord(value) ? firstFault(Object.entries(value), path) : `${path} is a map of names to schemas`
const type: Keyword = (value, path) => {
  const named = Array.isArray(value) ? value : [value]
  const wrong = named.find((name) => !types.has(name))
  if (wrong === undefined && named.length > 0) return undefined
  return `${path} is ${shown(value)}, not one of ${[...types].join(', ')}`
}

/** The keywords whose form is checked. Any other may stand in a schema and means what its reader makes of it. */
const keywords: Readonly<Record<string, Keyword>> = {
  type,
  // A pattern is data for others: nothing here compiles or tries one.
  pattern: text,
  $ref: reference,
  $dynamicRef: reference,
  $recursiveRef: reference,
  title: text,
  description: text,
  format: text,
  required: names,
  enum: list,
  properties: schemaMap,
  patternProperties: schemaMap,
  dependentSchemas: schemaMap,
  $defs: schemaMap,
  definitions: schemaMap,
  items: (value, path) => (Array.isArray(value) ? schemas(value, path) : formFault(value, path)),
  prefixItems: schemas,
  additionalProperties: formFault,
  additionalItems: formFault,
  unevaluatedProperties: formFault,
  unevaluatedItems: formFault,
  propertyNames: formFault,
  contains: formFault,
  not: formFault,
  if: formFault,
  then: formFault,
  else: formFault,
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

/**
 * What keeps a client's schema of a tool's arguments from being passed on, or undefined, and its size. The schema is
 * data for the model: it is looked at once, piece by piece, and no reference in it is followed.
 */
export function argumentsFault(schema: unknown): { fault?: string; bytes: number } {
  const bytes = jsonBytes(schema, schemaBytes)
  if (bytes === tooDeep)
    return { fault: `it nests deeper than ${schemaDepth} levels`, bytes: schemaBytes }
  if (bytes > schemaBytes) return { fault: `it is larger than ${schemaBytes} bytes`, bytes }
  if (!isRecord(schema)) return { fault: 'it is not an object', bytes }
  if (schema.type !== undefined && schema.type !== 'object')
    return {
      fault: `its type is ${shown(schema.type)}, and the arguments of a tool are an "object"`,
      bytes,
    }
  return { fault: formFault(schema, 'schema'), bytes }
}

/** What is wrong with the form of a schema. A schema that no value can fulfil passes. */
function formFault(schema: unknown, path: string): string | undefined {
  if (typeof schema === 'boolean') return undefined
  if (!isRecord(schema)) return `${path} is neither an object nor true or false`
  for (const [name, value] of Object.entries(schema)) {
    const check = Object.hasOwn(keywords, name) ? keywords[name] : undefined
    const fault = check?.(value, `${path}.${name}`)
    if (fault !== undefined) return fault
  }
  return undefined
}

function firstFault(
  schemas: Iterable<readonly [string | number, unknown]>,
  path: string,
): string | undefined {
  for (const [at, schema] of schemas) {
    const fault = formFault(schema, `${path}.${at}`)
    if (fault !== undefined) return fault
  }
  return undefined
}

const shown = (value: unknown): string => JSON.stringify(value).slice(0, 60)

const tooDeep = -1

/** The size of a value as JSON, or `tooDeep`. Counts no further than a little over `most`. */
function jsonBytes(value: unknown, most: number, depth = 0): number {
  if (typeof value === 'string')
    return value.length > most ? value.length : Buffer.byteLength(JSON.stringify(value))
  if (typeof value !== 'object' || value === null) return String(value).length
  if (depth === schemaDepth) return tooDeep
  let bytes = 2
  const add = (item: unknown): boolean => {
    const inside = jsonBytes(item, most - bytes, depth + 1)
    bytes = inside === tooDeep ? tooDeep : bytes + inside + 1
    return inside !== tooDeep && bytes <= most
  }
  if (Array.isArray(value)) {
    for (const item of value) if (!add(item)) break
    return bytes
  }
  for (const [key, item] of Object.entries(value)) {
    bytes += jsonBytes(key, most) + 1
    if (!add(item)) break
  }
  return bytes
}
