import { z } from 'zod'
import type { AnyRoute, RendersErrors, Schema, ServedApi } from '../../../plugin.ts'
import { abilityOf } from '../../../manifest/abilities.ts'
import { isRecord } from '../../base/fields.ts'
import { nodeHttp } from '../../base/node-http.ts'
import { type ErrorWords, errorWordsAt } from './error-words.ts'
import { bodyRule, eitherBody } from './input.ts'
import { type DeclaredRoute, readRouteKey, type RouteKey } from './routes.ts'

/** A JSON object of an OpenAPI document. */
export type Json = Record<string, unknown>

/** An OpenAPI 3.1 document. */
export interface OpenApi extends Json {
  readonly openapi: string
  readonly info: Json
  readonly paths: Record<string, Json>
  readonly components: { readonly schemas: Record<string, Json>; readonly [part: string]: unknown }
}

interface ApiDescription {
  readonly routes: readonly DeclaredRoute[]
  /** What web modules say of themselves. */
  readonly modules?: readonly ServedApi[]
  /** Below which addresses errors have another shape than the usual one. */
  readonly errors?: readonly ErrorWords[]
  readonly name?: string
  readonly version: string
  readonly publicUrl?: string
}

/** Describes every route as OpenAPI 3.1, from the schemas that the routes parse by. */
export function describeApi(description: ApiDescription): OpenApi {
  const { routes, modules = [], errors, name, version, publicUrl } = description
  const schemas: Record<string, Json> = { Error: errorSchema }
  const paths: Record<string, Json> = {}
  const tags = new Set<string>()
  const ids = new Set<string>()
  for (const { key: text, owner, route } of routes) {
    const key = readRouteKey(text)
    if (typeof key === 'string') continue
    tags.add(owner)
    const path = `/${key.segments.map((part) => (part.startsWith(':') ? `{${part.slice(1)}}` : part)).join('/')}`
    const item = (paths[path] ??= {})
    const failures = failuresOf(route, errorWordsAt(key.path, errors))
    item[key.method.toLowerCase()] = operation(
      key,
      uniqueId(key, ids),
      owner,
      route,
      schemas,
      failures,
    )
  }
  for (const module of modules) addModule(module, paths, schemas)
  return {
    openapi: '3.1.0',
    info: { title: name ?? 'Oracle runtime', version },
    ...(publicUrl === undefined ? {} : { servers: [{ url: publicUrl }] }),
    tags: [...tags].map((tag) => ({ name: tag })),
    paths,
    components: {
      schemas,
      responses,
      securitySchemes: { ...securitySchemes, ...ownSchemes(routes) },
    },
  }
}

/** Adds what a web module serves. Where a route has the same path and method, the route answers. */
function addModule(
  module: ServedApi,
  paths: Record<string, Json>,
  schemas: Record<string, Json>,
): void {
  const renamed = new Map<string, string>()
  const named = Object.entries(module.schemas ?? {}).map(([name, schema]) => {
    let own = name
    for (let n = 2; Object.hasOwn(schemas, own); n++) own = `${name}${n}`
    schemas[own] = schema
    if (own !== name) renamed.set(`#/components/schemas/${name}`, own)
    return own
  })
  const pointed = (value: Json) => (renamed.size > 0 ? pointAt(value, renamed) : value)
  for (const name of named) schemas[name] = pointed(schemas[name] ?? {})
  for (const [path, item] of Object.entries(module.paths))
    paths[path] = { ...pointed(item), ...paths[path] }
}

const lines = { 'application/x-ndjson': { schema: {} } }

function operation(
  key: RouteKey,
  id: string,
  owner: string,
  route: AnyRoute,
  schemas: Record<string, Json>,
  failures: Json,
): Json {
  const input = route.input && toJsonSchema(route.input, 'input', `${id}Input`, schemas)
  const output = route.output && toJsonSchema(route.output, 'output', `${id}Output`, schemas)
  const { kind } = bodyRule(route)
  const inQuery = key.method === 'GET' || key.method === 'DELETE' || kind === 'ndjson'
  const parameters = [
    ...key.params.map((name) => parameter(name, 'path', fieldsOf(input, schemas)[name], true)),
    ...(inQuery ? queryParameters(key, input, schemas) : []),
  ]
  const body = inQuery ? undefined : input && withoutParams(input, key, schemas)
  return {
    operationId: id,
    tags: [owner],
    ...(route.summary === undefined ? {} : { summary: route.summary }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(kind === 'ndjson'
      ? { requestBody: { required: true, content: lines } }
      : body === undefined
        ? {}
        : {
            requestBody: {
              content: {
                'application/json': { schema: body },
                'application/x-www-form-urlencoded': { schema: body },
                ...(eitherBody(route) && lines),
              },
            },
          }),
    responses: { ...failures, ...answersOf(route, output) },
    security: securityOf(route, abilityOf(owner, key.method, route), owner),
  }
}

/** The answers that are errors, by status. Where somebody tells them in words of another protocol, the shape of the body is open. */
function failuresOf({ auth, onError }: AnyRoute, below: RendersErrors | undefined): Json {
  const kind = (onError ?? below) === undefined ? '' : 'Own'
  const to = (name: keyof typeof usualFailures) => ({
    $ref: `#/components/responses/${kind}${name}`,
  })
  return {
    400: to('BadRequest'),
    ...(auth === 'public' ? {} : { 401: to('Unauthorized'), 403: to('Forbidden') }),
    429: to('TooManyRequests'),
    default: to('Fault'),
  }
}

const jsonOnly = { 200: ['application/json'] }

/** The answers that are no errors, by status. */
function answersOf({ answers = jsonOnly }: AnyRoute, output: Json | undefined): Json {
  return Object.fromEntries(
    Object.entries(answers).map(([status, types]) => [
      status,
      {
        description: nodeHttp.STATUS_CODES[status] ?? 'What the route answers.',
        ...(types.length > 0 && {
          content: Object.fromEntries(
            types.map((type) => [type, { schema: schemaOf(type, output) }]),
          ),
        }),
      },
    ]),
  )
}

/** The schema of a body: the route's for JSON, text for anything else. */
function schemaOf(type: string, output: Json | undefined): Json {
  if (/[/+]json$/.test(type)) return output ?? {}
  return type === 'application/x-ndjson' ? {} : { type: 'string' }
}

/** `GET /sessions/:id/messages` is `getSessionsByIdMessages`; a second of that name gets a number. */
function uniqueId(key: RouteKey, taken: Set<string>): string {
  const plain = operationId(key)
  let id = plain
  for (let n = 2; taken.has(id); n++) id = `${plain}${n}`
  taken.add(id)
  return id
}

function operationId({ method, segments }: RouteKey): string {
  const words = segments.map((segment) =>
    segment.startsWith(':') ? `by-${segment.slice(1)}` : segment,
  )
  const camel = words
    .join('-')
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
  return `${method.toLowerCase()}${camel || 'Root'}`
}

/**
 * A schema as JSON Schema; one that cannot be expressed is `{}`, which allows everything. A schema
 * that refers into itself becomes a component, for its references are relative to where it stands.
 */
function toJsonSchema(
  schema: Schema,
  io: 'input' | 'output',
  name: string,
  schemas: Record<string, Json>,
): Json {
  let made: Json
  try {
    made = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json
  } catch {
    // A getter or a custom type of the author's threw; the rest of the document stands.
    return {}
  }
  const { $schema: _, $defs, ...rest } = made
  if (!JSON.stringify(made).includes('"$ref"')) return rest
  const definitions = Object.entries(($defs ?? {}) as Record<string, Json>)
  // A component's name may hold fewer characters than an id of the author's.
  const component = (key: string) => `${name}.${key.replace(/[^A-Za-z0-9._-]/g, '_')}`
  const renamed = new Map(definitions.map(([key]) => [`#/$defs/${pointer(key)}`, component(key)]))
  renamed.set('#', name)
  for (const [key, definition] of definitions)
    schemas[component(key)] = pointAt(definition, renamed)
  schemas[name] = pointAt(rest, renamed)
  return { $ref: `#/components/schemas/${name}` }
}

/** A key as it stands in a JSON pointer. */
const pointer = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/** The same schema, whose references lead to components by their new names. */
function pointAt(schema: Json, renamed: ReadonlyMap<string, string>): Json {
  return Object.fromEntries(
    Object.entries(schema).map(([key, item]) => {
      const target = key === '$ref' && typeof item === 'string' ? renamed.get(item) : undefined
      return [key, target === undefined ? within(item, renamed) : `#/components/schemas/${target}`]
    }),
  )
}

function within(value: unknown, renamed: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((item) => within(item, renamed))
  return isRecord(value) ? pointAt(value, renamed) : value
}

function resolve(schema: Json | undefined, schemas: Record<string, Json>): Json {
  const ref = schema?.$ref
  return typeof ref === 'string'
    ? (schemas[ref.slice('#/components/schemas/'.length)] ?? {})
    : (schema ?? {})
}

function fieldsOf(schema: Json | undefined, schemas: Record<string, Json>): Record<string, Json> {
  const { properties } = resolve(schema, schemas)
  return (properties ?? {}) as Record<string, Json>
}

function requiredOf(schema: Json | undefined, schemas: Record<string, Json>): readonly string[] {
  const { required } = resolve(schema, schemas)
  return Array.isArray(required) ? required : []
}

function queryParameters(
  { params }: RouteKey,
  input: Json | undefined,
  schemas: Record<string, Json>,
) {
  const required = requiredOf(input, schemas)
  return Object.entries(fieldsOf(input, schemas))
    .filter(([name]) => !params.includes(name))
    .map(([name, schema]) => parameter(name, 'query', schema, required.includes(name)))
}

function parameter(
  name: string,
  where: 'path' | 'query',
  schema: Json | undefined,
  required: boolean,
): Json {
  const { description } = schema ?? {}
  return {
    name,
    in: where,
    required,
    schema: schema ?? { type: 'string' },
    ...(typeof description === 'string' ? { description } : {}),
  }
}

/** The schema of the body: the input without its path parameters. */
function withoutParams(input: Json, { params }: RouteKey, schemas: Record<string, Json>): Json {
  if (params.length === 0) return input
  const resolved = resolve(input, schemas)
  const fields = Object.entries(fieldsOf(input, schemas)).filter(([name]) => !params.includes(name))
  const required = requiredOf(input, schemas).filter((name) => !params.includes(name))
  const { required: _, ...rest } = resolved
  return {
    ...rest,
    properties: Object.fromEntries(fields),
    ...(required.length > 0 ? { required } : {}),
  }
}

/** An ability beside a scheme is what a caller by that scheme must have been granted. */
function securityOf({ auth = 'ucan', signed }: AnyRoute, ability: string, owner: string): Json[] {
  switch (auth) {
    case 'public':
      return []
    case 'bearer':
      return [{ bearer: [] }, { ucan: [ability] }]
    case 'operator':
      return [{ operator: [] }]
    case 'own':
      return [{ [`${owner}-own`]: [] }]
    case 'ucan':
      return [
        { ucan: [] },
        ...(signed === 'self' ? [] : [{ delegation: [] }]),
        ...(signed ? [] : [{ key: [] }]),
      ]
  }
}

/** A scheme for each plugin that tells itself who calls. */
const ownSchemes = (routes: ApiDescription['routes']): Record<string, Json> =>
  Object.fromEntries(
    routes
      .filter(({ route }) => route.auth === 'own')
      .map(({ owner }) => [
        `${owner}-own`,
        {
          type: 'http',
          scheme: `${owner}-own`,
          description: `What ${owner} checks itself, such as a signature over the body.`,
        },
      ]),
  )

const securitySchemes = {
  ucan: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'UCAN',
    description: 'A UCAN invocation, together with the header `X-Auth-Type: ucan`.',
  },
  delegation: {
    type: 'apiKey',
    in: 'header',
    name: 'x-ucan-delegation',
    description: 'A UCAN delegation, where no invocation comes along.',
  },
  key: {
    type: 'http',
    scheme: 'bearer',
    description: 'A personal key, as POST /keys makes one; in the header `X-API-Key` too.',
  },
  bearer: { type: 'http', scheme: 'bearer', description: 'The API key.' },
  operator: { type: 'http', scheme: 'bearer', description: "The operator's token." },
}

const errorSchema: Json = {
  type: 'object',
  required: ['statusCode', 'code', 'message', 'requestId'],
  properties: {
    statusCode: { type: 'integer', description: 'The HTTP status.' },
    code: { type: 'string', description: 'Stable; see the table of codes.' },
    message: { type: 'string', description: 'A sentence that names the thing and the value.' },
    hint: { type: 'string', description: 'What to do next.' },
    details: { description: 'Machine-readable facts: the list of faults for INVALID_INPUT.' },
    requestId: { type: 'string', description: 'Also in the header X-Request-Id.' },
  },
}

const failure = (description: string, headers?: Json) => ({
  description,
  ...(headers === undefined ? {} : { headers }),
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})

const usualFailures = {
  BadRequest: failure('The request is malformed, or a field failed its schema.'),
  Unauthorized: failure('No valid credential came with the request.'),
  Forbidden: failure('The caller is known and may not do this.'),
  TooManyRequests: failure('Too many requests from this address.', {
    'Retry-After': { schema: { type: 'integer', minimum: 1 }, description: 'Seconds to wait.' },
  }),
  Fault: failure('Any other fault.'),
}

/** The usual ones, and the same with a body of which only its protocol says what it holds. */
const responses: Json = {
  ...usualFailures,
  ...Object.fromEntries(
    Object.entries(usualFailures).map(([name, usual]) => [
      `Own${name}`,
      {
        ...usual,
        description: `${usual.description} Told in the words of another protocol.`,
        content: { 'application/json': { schema: {} } },
      },
    ]),
  ),
}
