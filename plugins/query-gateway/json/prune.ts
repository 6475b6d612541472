import {
  ScalarType,
  type DescField,
  type DescMessage,
  type JsonValue,
  type Registry,
} from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import { hasOwnForm } from './own-forms.ts'
import { LongNumber, scalarInput, withDoubles } from './exact.ts'

/** A JSON object. */
export type JsonObject = { [key: string]: JsonValue }

const deepest = 64
const anyName = 'google.protobuf.Any'

/**
 * Removes the keys that the descriptor does not have, so that the rest can be parsed strictly: the parser's own option
 * to ignore unknown keys also ignores unknown enum names. `unwrap` returns the value of the single field.
 */
export function pruneUnknown(
  message: DescMessage,
  json: JsonValue,
  registry: Registry,
  unwrap = false,
): JsonValue {
  const pruned = prune(message, json, registry, 0)
  return unwrap && isObject(pruned) ? (Object.values(pruned)[0] ?? null) : pruned
}

const isObject = (value: JsonValue): value is JsonObject =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !((value as unknown) instanceof LongNumber)

/** Makes an object without a prototype, on which keys such as `__proto__` have no special meaning. */
export const bareObject = (): JsonObject => Object.create(null) as JsonObject

function prune(
  message: DescMessage,
  json: JsonValue,
  registry: Registry,
  depth: number,
): JsonValue {
  if (depth > deepest)
    throw new RuntimeError('TOO_DEEP', `The JSON nests deeper than ${deepest} levels.`)
  // Well-known types with a special form in JSON have no unknown keys.
  if (hasOwnForm(message) && message.typeName !== anyName)
    return message.typeName.endsWith('Int64Value')
      ? scalarInput(message.fields[0]?.scalar, json)
      : withDoubles(json)
  if (!isObject(json)) return withDoubles(json)
  if (message.typeName === anyName) return pruneAny(json, registry, depth)
  const fields = fieldsByName(message)
  const kept = bareObject()
  for (const name of Object.keys(json)) {
    const field = fields.get(name)
    if (field === undefined || (json[name] === null && !saysNull(field))) continue
    if (Object.hasOwn(kept, field.name))
      throw new RuntimeError('INVALID_INPUT', `${field.name} came by both of its names.`)
    kept[field.name] = pruneField(field, json[name] ?? null, registry, depth + 1)
  }
  return kept
}

/** Whether null is a value of a field; for any other field null means that the field is absent. */
const saysNull = ({ message, enum: names, fieldKind }: DescField): boolean =>
  fieldKind !== 'list' &&
  fieldKind !== 'map' &&
  (message?.typeName === 'google.protobuf.Value' || names?.typeName === 'google.protobuf.NullValue')

const known = new WeakMap<DescMessage, ReadonlyMap<string, DescField>>()

/** The fields of a message by their proto names and by their JSON names. */
export function fieldsByName(message: DescMessage): ReadonlyMap<string, DescField> {
  let fields = known.get(message)
  if (fields === undefined) {
    // A proto name takes precedence over an equal JSON name of another field.
    fields = new Map([
      ...message.fields.map((field) => [field.jsonName, field] as const),
      ...message.fields.map((field) => [field.name, field] as const),
    ])
    known.set(message, fields)
  }
  return fields
}

function pruneField(
  field: DescField,
  json: JsonValue,
  registry: Registry,
  depth: number,
): JsonValue {
  const { message, scalar } = field
  const one = (item: JsonValue) =>
    message ? prune(message, item, registry, depth) : scalarInput(scalar, item)
  if (field.fieldKind === 'list') return Array.isArray(json) ? json.map(one) : json
  if (field.fieldKind === 'map')
    return isObject(json)
      ? Object.fromEntries(
          Object.entries(json).map(([key, item]) => [mapKey(field, key), one(item)]),
        )
      : json
  return one(json)
}

function mapKey(field: DescField & { fieldKind: 'map' }, key: string): string {
  const isText = field.mapKey === ScalarType.STRING || field.mapKey === ScalarType.BOOL
  if (!isText && !/^-?\d+$/.test(key))
    throw new RuntimeError('INVALID_INPUT', `"${key}" is no key of ${field.name}.`)
  return key
}

function pruneAny(json: JsonObject, registry: Registry, depth: number): JsonValue {
  const { '@type': url } = json
  const inner =
    typeof url === 'string' ? registry.getMessage(url.slice(url.lastIndexOf('/') + 1)) : undefined
  if (inner === undefined) return withDoubles(json)
  if (hasOwnForm(inner)) {
    if (!Object.hasOwn(json, 'value')) return { '@type': url ?? null }
    return { '@type': url ?? null, value: prune(inner, json.value ?? null, registry, depth + 1) }
  }
  const pruned = prune(inner, json, registry, depth + 1)
  return { '@type': url ?? null, ...(isObject(pruned) ? pruned : {}) }
}
