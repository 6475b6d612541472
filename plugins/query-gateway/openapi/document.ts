import { createHash } from 'node:crypto'
import type { DescMessage } from '@bufbuild/protobuf'
import type { Dialect } from '../json/writer.ts'
import type { Operation, Operations } from '../operations/operations.ts'
import type { Template } from '../operations/template.ts'
import type { HttpRule } from '../operations/http-rule.ts'
import { commentOf, described } from './comments.ts'
import { type Json, Schemas } from './schemas.ts'

/** The options of `describeGateway`. */
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

/** Describes the served operations as OpenAPI 3.1, from the descriptors. */
export function describeGateway(
  { all }: Operations,
  { dialect, unimplemented }: DescribeOptions,
): GatewayApi {
  const schemas = new Schemas(dialect)
  const paths: Record<string, Json> = {}
  for (const operation of all) {
    const { verb, template } = operation.rule
    const path = pathOf(template)
    const item = (paths[path] ??= {})
    // OpenAPI has eight methods; another method becomes an extension of the path item.
    for (const key of verb === '*' ? everyVerb : [verb.toLowerCase()]) {
      item[known.has(key) ? key : `x-${key}`] ??= describe(
        operation,
        idOf(operation.rule, key),
        unimplemented.has(operation.path),
        schemas,
      )
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Protocol query gateway', version: '1' },
    servers: [{ url: '/', description: 'The server that this document comes from.' }],
    tags: tagsOf(all),
    paths,
    components: { schemas: schemas.all },
  }
}

/**
 * The id of a binding. It depends on the method and the binding alone, so that no other method, binding or order of
 * files changes the id that a generated client has: the full name of the method, and for any binding but the annotation
 * itself also the HTTP method and a digest of the path.
 */
function idOf({ method, verb, isMain, template }: HttpRule, key: string): string {
  const name = `${method.parent.typeName}.${method.name}`
  if (isMain) return verb === '*' ? `${name}.${key}` : name
  const digest = createHash('sha256').update(template.text).digest('hex').slice(0, 8)
  return `${name}.${key}.${digest}`
}

/** The services as tags, with what their comments say. */
function tagsOf(all: readonly Operation[]): Json[] {
  const services = new Set(all.map(({ rule }) => rule.method.parent))
  return [...services].map((service) => ({ name: service.typeName, ...described(service) }))
}

/** The first line of a comment, which is the title of an operation. */
const firstLine = (text: string | undefined) => text?.split('\n', 1)[0]

function describe(
  operation: Operation,
  operationId: string,
  isUnimplemented: boolean,
  schemas: Schemas,
): Json {
  const isMissing = operation.off || operation.kind === 'unsupported' || isUnimplemented
  const responses = answered(operation, isMissing, schemas)
  const summary = firstLine(commentOf(operation.rule.method))
  return {
    operationId,
    ...(summary === undefined ? {} : { summary }),
    ...described(operation.rule.method),
    tags: [operation.rule.method.parent.typeName],
    ...asked(operation, schemas),
    responses,
    ...(isMissing ? { 'x-not-implemented': true } : {}),
  }
}

/** The parameters and the body of an operation. */
function asked({ rule }: Operation, schemas: Schemas): Json {
  const { method, template, body, verb } = rule
  const inPath = new Set(template.variables.map((variable) => variable.path.join('.')))
  const bodySchema =
    body === '*'
      ? schemas.ofMessage(method.input)
      : method.input.fields
          .filter(({ name }) => name === body)
          .map((field) => schemas.ofField(field))[0]
  return {
    parameters: [
      ...template.variables.map((variable) => ({
        name: variable.path.join('.'),
        in: 'path',
        required: true,
        schema: { type: 'string' },
      })),
      ...(body === '*' ? [] : queryParameters(schemas, method.input, inPath, body)),
      ...(verb === 'GET' ? [height] : []),
    ],
    ...(bodySchema === undefined
      ? {}
      : { requestBody: { content: { 'application/json': { schema: bodySchema } } } }),
  }
}

/** The answers of an operation, by status. */
function answered({ rule, kind }: Operation, isMissing: boolean, schemas: Schemas): Json {
  const { output } = rule.method
  const whole = output.fields.find(({ name }) => name === rule.responseBody)
  const schema = whole === undefined ? schemas.ofMessage(output) : schemas.ofField(whole)
  const streamed = {
    'application/x-ndjson': { schema: { type: 'object', properties: { result: schema } } },
    'text/event-stream': { schema: { type: 'string' } },
  }
  return {
    200: {
      description: 'The answer of the upstream.',
      content: kind === 'stream' ? streamed : { 'application/json': { schema } },
    },
    // Only the state of one block has an ETag, with which a client can ask for it again.
    ...(rule.verb === 'GET' && kind !== 'stream'
      ? { 304: { description: 'What the client has is still so.' } }
      : {}),
    ...(isMissing ? { 501: failure('The upstream does not implement this.') } : {}),
    default: failure('A gRPC status, as the upstream gave it.'),
  }
}

function queryParameters(
  schemas: Schemas,
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
        : queryParameters(schemas, message, taken, body, `${name}.`, depth + 1)
    return [
      { name, in: 'query', required: false, ...described(field), schema: schemas.ofField(field) },
    ]
  })
}

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

const height: Json = {
  name: 'x-cosmos-block-height',
  in: 'header',
  required: false,
  schema: { type: 'string', pattern: '^[0-9]+$' },
  description: 'Ask for the state at this block; the answer never changes.',
}

const failure = (description: string): Json => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})
