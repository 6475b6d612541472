import { ScalarType, type DescEnum, type DescField, type DescMessage } from '@bufbuild/protobuf'
import { described } from './comments.ts'
import type { Dialect } from '../json/writer.ts'

/** A part of an OpenAPI document. */
export type Json = Record<string, unknown>

/** The schemas of messages in one dialect; `ofMessage` describes each message once, on its first use. */
export class Schemas {
  /** The schemas by the names of their types. */
  readonly all: Record<string, Json> = { Error: errorSchema }
  readonly #dialect: Dialect

  constructor(dialect: Dialect) {
    this.#dialect = dialect
  }

  /** The schema of a message: inline for a type with a special form in JSON, else a reference. */
  ofMessage(message: DescMessage): Json {
    const own = wellKnown[message.typeName]
    if (own) return own
    const wrapper = /^google\.protobuf\.(\w+)Value$/.test(message.typeName)
    if (wrapper) return scalarSchema(message.fields[0]?.scalar)
    if (!Object.hasOwn(this.all, message.typeName)) {
      const schema: Json = { type: 'object', ...described(message) }
      this.all[message.typeName] = schema
      schema.properties = Object.fromEntries(
        message.fields.map((field) => [
          this.#dialect === 'proto3' ? field.jsonName : field.name,
          { ...this.#inMessage(field), ...described(field) },
        ]),
      )
    }
    return { $ref: `#/components/schemas/${message.typeName}` }
  }

  /** The schema of a field outside of its message. */
  ofField(field: DescField): Json {
    if (field.fieldKind === 'list') return { type: 'array', items: this.#single(field) }
    if (field.fieldKind === 'map')
      return { type: 'object', additionalProperties: this.#single(field) }
    return this.#single(field)
  }

  #single(field: DescField): Json {
    if (field.message) return this.ofMessage(field.message)
    return field.enum ? enumSchema(field.enum) : scalarSchema(field.scalar)
  }

  /** The schema of a field in its message. The `cosmos` dialect writes null for an absent value that has no other default. */
  #inMessage(field: DescField): Json {
    const schema = this.ofField(field)
    const single = field.fieldKind !== 'list' && field.fieldKind !== 'map'
    const canBeNull =
      single &&
      field.oneof === undefined &&
      (field.message !== undefined ||
        field.scalar === ScalarType.BYTES ||
        field.presence === explicitPresence)
    return this.#dialect === 'cosmos' && canBeNull ? { anyOf: [schema, { type: 'null' }] } : schema
  }
}

const explicitPresence = 1 // google.protobuf.FeatureSet.FieldPresence.EXPLICIT

const enumSchema = ({ values }: DescEnum): Json => ({
  type: 'string',
  enum: values.map(({ name }) => name),
})

function scalarSchema(scalar: ScalarType | undefined): Json {
  switch (scalar) {
    case ScalarType.BOOL:
      return { type: 'boolean' }
    case ScalarType.STRING:
      return { type: 'string' }
    case ScalarType.BYTES:
      return { type: 'string', contentEncoding: 'base64' }
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return { type: 'number' }
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return { type: 'integer' }
    default:
      return { type: 'string', pattern: '^-?[0-9]+$' }
  }
}

const wellKnown: Record<string, Json> = {
  'google.protobuf.Any': {
    type: 'object',
    properties: { '@type': { type: 'string' } },
    required: ['@type'],
  },
  'google.protobuf.Timestamp': { type: 'string', format: 'date-time' },
  'google.protobuf.Duration': { type: 'string', pattern: '^-?[0-9]+(\\.[0-9]+)?s$' },
  'google.protobuf.FieldMask': { type: 'string' },
  'google.protobuf.Struct': { type: 'object' },
  'google.protobuf.Value': {},
  'google.protobuf.ListValue': { type: 'array' },
}

const errorSchema: Json = {
  type: 'object',
  required: ['code', 'message', 'details'],
  properties: {
    code: { type: 'integer', description: 'The gRPC status.' },
    message: { type: 'string' },
    details: { type: 'array', items: wellKnown['google.protobuf.Any'] },
  },
}
