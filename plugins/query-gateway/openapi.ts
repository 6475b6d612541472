import { ScalarType, type DescEnum, type DescField, type DescMessage } from '@bufbuild/protobuf'
import type { Dialect } from './json/writer.ts'
import type { Operation, Operations } from './operations/operations.ts'
import type { Template } from './operations/template.ts'

type Json = Record<string, unknown>

/** How what is served is described. */
export interface DescribeOptions {
  readonly dialect: Dialect
  /** Methods that the upstream does not implement, as `/package.Service/Method`. */
  readonly unimplemented: ReadonlySet<string>
}

/** The OpenAPI document of the gateway. */
export interface GatewayApi extends Json {
  readonly paths: Record<string, Json>
  readonly components: { readonly schemas: Record<string, Json> }
}

/** Describes what is served now as OpenAPI 3.1, from the descriptors. */
export function describeGateway(
  { all }: Operations,
  { dialect, unimplemented }: DescribeOptions,
): GatewayApi {
  const schemas: Record<string, Json> = { Error: errorSchema }
  const paths: Record<string, Json> = {}
  const ids = new Map<string, number>()
  for (const operation of all) {
    const { verb, template, method } = operation.rule
    const path = pathOf(template)
    const name = `${method.parent.name}_${method.name}`
    const item = (paths[path] ??= {})
    // OpenAPI knows eight methods; any other is an extension of the path.
    for (const key of verb === '*' ? everyVerb : [verb.toLowerCase()]) {
      const count = (ids.get(name) ?? 0) + 1
      ids.set(name, count)
      item[known.has(key) ? key : `x-${key}`] ??= describe(
        operation,
        count === 1 ? name : `${name}${count}`,
      )
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Protocol query gateway', version: '1' },
    paths,
    components: { schemas },
  }

  function describe({ rule, kind, off, path }: Operation, operationId: string): Json {
    const { method, template, body, verb } = rule
    const inPath = new Set(template.variables.map((variable) => variable.path.join('.')))
    const missing = off || kind === 'unsupported' || unimplemented.has(path)
    const whole = method.output.fields.find(({ name }) => name === rule.responseBody)
    const answer = whole === undefined ? schemaOf(method.output) : fieldSchema(whole)
    const bodySchema =
      body === '*'
        ? schemaOf(method.input)
        : method.input.fields.filter(({ name }) => name === body).map(fieldSchema)[0]
    return {
      operationId,
      tags: [method.parent.typeName],
      parameters: [
        ...template.variables.map((variable) => ({
          name: variable.path.join('.'),
          in: 'path',
          required: true,
          schema: { type: 'string' },
        })),
        ...(body === '*' ? [] : queryParameters(method.input, inPath, body)),
        ...(verb === 'GET' ? [height] : []),
      ],
      ...(bodySchema === undefined
        ? {}
        : { requestBody: { content: { 'application/json': { schema: bodySchema } } } }),
      responses: {
        200: {
          description: 'The answer of the upstream.',
          content:
            kind === 'stream'
              ? {
                  'application/x-ndjson': {
                    schema: { type: 'object', properties: { result: answer } },
                  },
                  'text/event-stream': { schema: { type: 'string' } },
                }
              : { 'application/json': { schema: answer } },
        },
        // Only the state of one block is kept by clients, and asked for again by its ETag.
        ...(verb === 'GET' && kind !== 'stream'
          ? { 304: { description: 'What the client has is still so.' } }
          : {}),
        ...(missing ? { 501: failure('The upstream does not implement this.') } : {}),
        default: failure('A gRPC status, as the upstream gave it.'),
      },
      ...(missing ? { 'x-not-implemented': true } : {}),
    }
  }

  function queryParameters(
    input: DescMessage,
    taken: ReadonlySet<string>,
    body: string,
    prefix = '',
    depth = 0,
  ): Json[] {
    return input.fields.flatMap((field) => {
      const name = `${prefix}${field.name}`
      if (taken.has(name) || name === body || field.fieldKind === 'map') return []
      const { message } = field
      if (message !== undefined && !message.typeName.startsWith('google.protobuf.'))
        return field.fieldKind === 'list' || depth > 3
          ? []
          : queryParameters(message, taken, body, `${name}.`, depth + 1)
      return [{ name, in: 'query', required: false, schema: fieldSchema(field) }]
    })
  }

  function schemaOf(message: DescMessage): Json {
    const own = wellKnown[message.typeName]
    if (own) return own
    const wrapper = /^google\.protobuf\.(\w+)Value$/.test(message.typeName)
    if (wrapper) return scalarSchema(message.fields[0]?.scalar)
    if (!Object.hasOwn(schemas, message.typeName)) {
      const schema: Json = { type: 'object' }
      schemas[message.typeName] = schema
      schema.properties = Object.fromEntries(
        message.fields.map((field) => [
          dialect === 'proto3' ? field.jsonName : field.name,
          inMessage(field),
        ]),
      )
    }
    return { $ref: `#/components/schemas/${message.typeName}` }
  }

  function fieldSchema(field: DescField): Json {
    if (field.fieldKind === 'list') return { type: 'array', items: single(field) }
    if (field.fieldKind === 'map') return { type: 'object', additionalProperties: single(field) }
    return single(field)
  }

  function single(field: DescField): Json {
    if (field.message) return schemaOf(field.message)
    return field.enum ? enumSchema(field.enum) : scalarSchema(field.scalar)
  }

  /** A ledger writes null for what was not sent, where there is no other way to say so. */
  function inMessage(field: DescField): Json {
    const schema = fieldSchema(field)
    const single = field.fieldKind !== 'list' && field.fieldKind !== 'map'
    const canBeNull =
      single &&
      field.oneof === undefined &&
      (field.message !== undefined ||
        field.scalar === ScalarType.BYTES ||
        field.presence === explicitPresence)
    return dialect === 'cosmos' && canBeNull ? { anyOf: [schema, { type: 'null' }] } : schema
  }
}

const explicitPresence = 1 // google.protobuf.FeatureSet.FieldPresence.EXPLICIT
const known = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'])
const everyVerb = ['get', 'put', 'post', 'delete', 'patch']

const pathOf = ({ parts, variables, verb }: Template): string => {
  const segments: string[] = []
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index]
    const variable = variables.find(({ from }) => from === index)
    if (variable) {
      segments.push(`{${variable.path.join('.')}}`)
      index = Math.min(variable.to, parts.length) - 1
    } else segments.push(typeof part === 'object' ? part.literal : (part ?? ''))
  }
  return `/${segments.join('/')}${verb === '' ? '' : `:${verb}`}`
}

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

const height: Json = {
  name: 'x-cosmos-block-height',
  in: 'header',
  required: false,
  schema: { type: 'string', pattern: '^[0-9]+$' },
  description: 'Ask for the state at this block; the answer never changes.',
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
const failure = (description: string): Json => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})
