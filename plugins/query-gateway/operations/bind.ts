import {
  create,
  fromJson,
  ScalarType,
  type DescEnum,
  type DescField,
  type DescMessage,
  type JsonValue,
  type Message,
  type Registry,
} from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import type { HttpRule } from './http-rule.ts'
import { isMask, type Mask, setMask } from './masks.ts'
import { scalarInput } from '../json/exact.ts'
import { bareObject, fieldsByName, pruneUnknown, type JsonObject } from '../json/prune.ts'
import { hasOwnForm } from '../json/own-forms.ts'
import { readQuery } from './query.ts'

/** The options of `compileBinding`. */
export interface BindOptions {
  readonly registry: Registry
  /** Whether to refuse query parameters that name no field, instead of ignoring them. */
  readonly strictQuery: boolean
}

/** The parts of a request that become a message. */
export interface Sources {
  /** The values of the template's variables, in the order of the template. */
  readonly path: readonly string[]
  readonly query: string
  /** The parsed body; undefined where the request has none. */
  readonly body?: JsonValue
}

/** Makes the function that turns a request into the method's input message. Throws for a rule that names no valid field. */
export function compileBinding(
  { method, template, body: bodyRule }: HttpRule,
  { registry, strictQuery }: BindOptions,
): (sources: Sources) => Message {
  const { input } = method
  const variables = template.variables.map(({ path }) => {
    const target = resolve(input, path)
    if (target === undefined || !isText(target.field) || isMany(target.field))
      throw new RuntimeError(
        'ROUTE_INVALID',
        `${template.text} binds ${path.join('.')}, which is no single value of ${input.typeName}.`,
      )
    return target
  })
  const bodyField = bodyRule === '' || bodyRule === '*' ? undefined : fieldOf(input, bodyRule)
  if (bodyField === undefined && bodyRule !== '' && bodyRule !== '*')
    throw new RuntimeError(
      'ROUTE_INVALID',
      `${template.text} takes ${bodyRule} as its body, which is no field.`,
    )
  const fixed = new Set(variables.map(({ names }) => names.join('.')))

  return ({ path, query, body }) => {
    const json = bareObject()
    if (body !== undefined && bodyRule === '*') {
      const pruned = pruneUnknown(input, body, registry)
      if (!isObject(pruned)) throw invalid('The body is not a JSON object.')
      Object.assign(json, pruned)
    } else if (body !== undefined && bodyField !== undefined)
      json[bodyField.name] = pruneUnknown(input, { [bodyField.name]: body }, registry, true)
    const masks: Mask[] = []
    if (query !== '' && bodyRule !== '*') bindQuery(json, query, masks)
    for (const [index, target] of variables.entries()) {
      const texts = [path[index] ?? '']
      if (isMask(target.field)) masks.push({ fields: target.fields, texts })
      put(json, target, texts, true)
    }
    const message = parse(input, json, registry)
    for (const mask of masks) setMask(message, mask)
    return message
  }

  function bindQuery(json: JsonObject, query: string, masks: Mask[]): void {
    const given = new Map<string, { target: Target; texts: string[]; mapKey?: string }>()
    for (const [name, text] of readQuery(query)) {
      const bracket = /^([^[\]]+)\[([^\]]*)\]$/.exec(name)
      const target = resolve(input, (bracket?.[1] ?? name).split('.'))
      const map = target?.field.fieldKind === 'map'
      const mapKey = bracket?.[2]
      if (target === undefined || map !== (mapKey !== undefined)) {
        if (strictQuery)
          throw invalid(`There is no query parameter "${name}" for ${input.typeName}.`)
        continue
      }
      if (!isText(target.field))
        throw invalid(`"${name}" is a message and cannot be set in the query.`)
      const key = mapKey === undefined ? target.names.join('.') : name
      // Values of the path and of the body take precedence over the query.
      if (fixed.has(key) || target.names[0] === bodyField?.name) continue
      const seen = given.get(key)
      if (seen) seen.texts.push(text)
      else given.set(key, { target, texts: [text], ...(mapKey === undefined ? {} : { mapKey }) })
    }
    for (const [name, { target, texts, mapKey }] of given) {
      if (texts.length > 1 && target.field.fieldKind !== 'list')
        throw invalid(`"${name}" came ${texts.length} times and takes one value.`)
      if (isMask(target.field) && mapKey === undefined) masks.push({ fields: target.fields, texts })
      put(json, target, texts, false, mapKey)
    }
  }
}

/** Parses JSON strictly to the input message, and refuses unknown enum names and numbers out of range. */
export function parse(input: DescMessage, json: JsonValue, registry: Registry): Message {
  try {
    return isObject(json) && Object.keys(json).length === 0
      ? create(input)
      : fromJson(input, json, { registry })
  } catch (thrown) {
    throw invalid(thrown instanceof Error ? sentence(thrown.message) : 'The request is malformed.')
  }
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
const invalid = (message: string) => new RuntimeError('INVALID_INPUT', message)
const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

interface Target {
  readonly names: readonly string[]
  /** The fields of the names; the last one is `field`. */
  readonly fields: readonly DescField[]
  readonly field: DescField
}

const fieldOf = (message: DescMessage, name: string) => fieldsByName(message).get(name)

/** How deep a query parameter may name a field, because a type that contains itself has no end. */
const deepestPath = 32
const isMany = ({ fieldKind }: DescField) => fieldKind === 'list' || fieldKind === 'map'

/** Follows a path of proto names or JSON names into nested messages. */
function resolve(message: DescMessage, path: readonly string[]): Target | undefined {
  if (path.length > deepestPath)
    throw invalid(`A query parameter names a field more than ${deepestPath} levels down.`)
  const names: string[] = []
  const fields: DescField[] = []
  let at: DescMessage | undefined = message
  let field: DescField | undefined
  for (const name of path) {
    field = at && fieldOf(at, name)
    if (field === undefined) return undefined
    names.push(field.name)
    fields.push(field)
    // A type with a special form in JSON cannot be set field by field.
    at = field.fieldKind === 'message' && !hasOwnForm(field.message) ? field.message : undefined
  }
  return field && { names, fields, field }
}

const textual = new Set(
  [
    'Timestamp',
    'Duration',
    'FieldMask',
    ...['Double', 'Float', 'Int64', 'UInt64', 'Int32', 'UInt32', 'Bool', 'String', 'Bytes'].map(
      (kind) => `${kind}Value`,
    ),
  ].map((name) => `google.protobuf.${name}`),
)
const isTextual = ({ typeName }: DescMessage): boolean => textual.has(typeName)

/** Whether a text can hold the value of a field, or the values of its items. */
const isText = ({ message }: DescField): boolean => message === undefined || isTextual(message)

function put(
  json: JsonObject,
  { names, field }: Target,
  texts: readonly string[],
  override: boolean,
  mapKey?: string,
): void {
  let at = json
  for (const name of names.slice(0, -1)) {
    const next = at[name]
    if (isObject(next)) at = next
    else at = at[name] = bareObject()
  }
  const values = texts.map((text) => textAsJson(field, text))
  if (mapKey !== undefined) {
    if (field.fieldKind === 'map' && field.mapKey === ScalarType.BOOL)
      mapKey = String(booleanOf(field, mapKey))
    const map = at[field.name]
    const value = values[0] ?? null
    if (isObject(map)) map[mapKey] = value
    else at[field.name] = Object.assign(bareObject(), { [mapKey]: value })
  } else if (field.fieldKind === 'list') at[field.name] = values
  else at[field.name] = values[0] ?? null
  // A value of the path also replaces another member of its oneof.
  if (override && field.oneof)
    for (const other of field.oneof.fields) if (other !== field) delete at[other.name]
}

function textAsJson(field: DescField, text: string): JsonValue {
  const scalar = field.scalar ?? (field.message ? field.message.fields[0]?.scalar : undefined)
  if (field.enum) return enumAsJson(field.enum, text)
  // The paths of a mask are set once the message is parsed.
  if (isMask(field) && field.fieldKind !== 'map') return ''
  if (field.message && !field.message.typeName.endsWith('Value')) return text
  switch (scalar) {
    case ScalarType.BOOL:
      return booleanOf(field, text)
    case ScalarType.BYTES:
      return base64(field, text)
    case ScalarType.STRING:
      return text
    default:
      if (text.trim() === '' || text.trim() !== text)
        throw invalid(`${field.name} is "${text}", which is no number.`)
      return scalarInput(scalar, text)
  }
}

const booleans = new Map([
  ...['1', 't', 'T', 'TRUE', 'true', 'True'].map((text) => [text, true] as const),
  ...['0', 'f', 'F', 'FALSE', 'false', 'False'].map((text) => [text, false] as const),
])

/** Reads a boolean in the spellings of Go's ParseBool, which the gateways of ledgers take. */
function booleanOf({ name }: DescField, text: string): boolean {
  const value = booleans.get(text)
  if (value === undefined)
    throw invalid(`${name} is "${text}", which is neither true nor false, 1 nor 0, t nor f.`)
  return value
}

function enumAsJson({ values, typeName }: DescEnum, text: string): JsonValue {
  if (/^-?\d+$/.test(text)) return Number(text)
  if (values.some(({ name }) => name === text)) return text
  throw invalid(`"${text}" is no value of ${typeName}.`)
}

/** Reads base64 or base64url, padded or not, as padded base64. A `+` that the client did not escape arrives as a space. */
function base64(field: DescField, text: string): string {
  const standard = text.replaceAll(' ', '+').replaceAll('-', '+').replaceAll('_', '/')
  const bare = standard.replace(/={1,2}$/, '')
  if (!/^[A-Za-z0-9+/]*$/.test(bare) || bare.length % 4 === 1)
    throw invalid(`${field.name} is "${text}", which is not base64.`)
  return bare.padEnd(Math.ceil(bare.length / 4) * 4, '=')
}
