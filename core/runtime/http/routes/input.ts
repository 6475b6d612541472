import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { type Fault, RuntimeError } from '../../../errors.ts'
import { faultOf } from '../../../manifest/faults.ts'
import type { AnyRoute, Schema } from '../../../plugin.ts'
import { bodyKind, hasBody, parseBody, readBody } from '../read/body.ts'
import { type Pairs, readPairs } from '../read/pairs.ts'
import type { RouteKey } from './routes.ts'
import { checkText } from '../../base/safe-json.ts'

/** What a request brought: the parsed input, and the body's bytes where there was one to read. */
interface RequestInput {
  readonly input: unknown
  readonly raw: Buffer | undefined
}

/** Reads a request's input. Made once per route at boot. */
export type ReadInput = (
  req: IncomingMessage,
  captures: readonly string[],
  query: string,
) => Promise<RequestInput>

/**
 * Reads an input once for each request: a limit that counts by the input reads it first, and the route gets the same.
 */
export function once(readInput: ReadInput): ReadInput {
  const known = new WeakMap<IncomingMessage, Promise<RequestInput>>()
  return (req, captures, query) => {
    const read = known.get(req) ?? readInput(req, captures, query)
    known.set(req, read)
    return read
  }
}

/** How long a body is at most whose route says nothing of it. */
export const usualBodyBytes = 1024 * 1024
const ndjsonBytes = 64 * 1024 * 1024

/** How a route takes its body, with the defaults filled in. For a route that takes both, the rule of JSON: see `eitherBody`. */
export function bodyRule({ body }: AnyRoute): { kind: 'json' | 'ndjson'; maxBytes: number } {
  if (typeof body === 'object' && 'json' in body) return { kind: 'json', maxBytes: body.json }
  const declared = typeof body === 'object' ? body : { kind: body, maxBytes: undefined }
  const kind = declared.kind ?? 'json'
  return { kind, maxBytes: declared.maxBytes ?? (kind === 'json' ? usualBodyBytes : ndjsonBytes) }
}

/** The limits of a route that takes JSON and NDJSON. */
export function eitherBody({ body }: AnyRoute): { json: number; ndjson: number } | undefined {
  return typeof body === 'object' && 'json' in body ? body : undefined
}

/**
 * The reader of one route's input: path parameters merged with the query (GET, DELETE, NDJSON) or
 * with the body, parsed by the schema exactly once. A path parameter wins over a field of the same name.
 */
export function prepareInput({ method, params }: RouteKey, route: AnyRoute): ReadInput {
  const { kind, maxBytes } = bodyRule(route)
  const { input: schema } = route
  if (schema === undefined)
    return async (req, captures) => ({
      input: readParams(params, captures),
      raw: route.raw && hasBody(req) ? await readBody(req, maxBytes) : undefined,
    })

  const arrays = arrayFields(schema)
  const parse = prepareSchema(schema)
  if (method === 'GET' || method === 'DELETE' || kind === 'ndjson')
    return async (_, captures, query) => {
      const pairs = wrapArrays(readPairs(query, 'query'), arrays)
      const merged = params.length > 0 ? Object.assign(pairs, readParams(params, captures)) : pairs
      return { input: await parse(merged), raw: undefined }
    }

  return async (req, captures) => {
    const pathParams = readParams(params, captures)
    if (!hasBody(req)) return { input: await parse(pathParams), raw: undefined }
    const type = bodyKind(req, ['json', 'form'])
    const raw = await readBody(req, maxBytes)
    const body = parseBody(raw, type)
    // A form is read as pairs, nothing else.
    if (type === 'form') wrapArrays(body as Pairs, arrays)
    if (params.length === 0) return { input: await parse(body), raw }
    if (typeof body !== 'object' || body === null || Array.isArray(body))
      throw invalidInput([{ path: '', message: 'expected a JSON object' }])
    return { input: await parse(Object.assign(body, pathParams)), raw }
  }
}

/** Decodes path parameters. Each one is a whole segment of the raw path. */
function readParams(names: readonly string[], captures: readonly string[]): Record<string, string> {
  const params: Record<string, string> = {}
  for (let index = 0; index < names.length; index++) {
    const name = names[index] ?? ''
    const raw = captures[index] ?? ''
    params[name] = raw.includes('%') ? decodeParam(raw, name) : raw
  }
  return params
}

function decodeParam(raw: string, name: string): string {
  let value: string
  try {
    value = decodeURIComponent(raw)
  } catch (cause) {
    throw new RuntimeError(
      'BAD_REQUEST',
      `"${name}" in the path holds a percent-encoding that is not UTF-8.`,
      { cause },
    )
  }
  checkText(value, name)
  return value
}

/** Checks a value by a schema, once; the result is a promise only where the schema is asynchronous. */
export function prepareSchema(schema: Schema): (value: unknown) => unknown {
  return (value) => {
    // `run` answers at once or with a promise, as the schema needs. The public parsers want to know
    // beforehand, and guessing wrong would run the schema's own functions twice.
    const result = schema._zod.run({ value, issues: [] }, {})
    return result instanceof Promise ? result.then(valueOf) : valueOf(result)
  }
}

/** How many faults of one input the error lists. */
const mostFaults = 100

function valueOf(result: z.core.ParsePayload): unknown {
  if (result.issues.length === 0) return result.value
  const told = result.issues
    .slice(0, mostFaults)
    .map((issue) => faultOf(z.core.util.finalizeIssue(issue, {}, z.core.config())))
  throw invalidInput(told, result.issues.length)
}

/** The error of an input that failed its schema; the message names the first field. */
export function invalidInput(faults: readonly Fault[], found = faults.length): RuntimeError {
  const [first] = faults
  const where = first === undefined || first.path === '' ? 'The input' : `"${first.path}"`
  const more = found > 1 ? ` And ${found - 1} more.` : ''
  const said = first?.message.replace(/^Invalid input: /, '').replace(/\.$/, '')
  const end = said?.endsWith('?') ? '' : '.'
  return new RuntimeError('INVALID_INPUT', `${where} is not valid: ${said}${end}${more}`, {
    details: faults,
  })
}

/** A refused request as faults, for a route that renders its own: a schema's list, else the one sentence. */
export function toldFaults(error: RuntimeError): readonly Fault[] {
  return error.code === 'INVALID_INPUT' && Array.isArray(error.details)
    ? error.details
    : [{ path: '', message: error.message }]
}

/** A query cannot say "a list of one", so a single value for a list becomes such a list. */
function wrapArrays(pairs: Pairs, arrays: ReadonlySet<string>): Pairs {
  for (const name of arrays) {
    const value = pairs[name]
    if (typeof value === 'string' && Object.hasOwn(pairs, name)) pairs[name] = [value]
  }
  return pairs
}

/** The names of a schema's fields that are lists. */
function arrayFields(schema: Schema, depth = 0): ReadonlySet<string> {
  const names = new Set<string>()
  for (const layer of layersOf(schema)) {
    const def = definitionOf(layer)
    // A lazy intersection may lead back to itself.
    if (def.type === 'intersection' && depth < 8) {
      for (const side of [def.left, def.right])
        for (const name of arrayFields(side, depth + 1)) names.add(name)
    } else if (def.type === 'object') {
      for (const [name, field] of Object.entries(def.shape))
        if (layersOf(field).some(({ _zod: { def } }) => def.type === 'array')) names.add(name)
    }
  }
  return names
}

/** A schema and what it wraps: `.optional()`, `.default()`, `.transform()` and the like, outside in. */
function layersOf(schema: Schema): Schema[] {
  const layers: Schema[] = []
  for (let layer: Schema | undefined = schema; layer && layers.length < 32; layer = inner(layer))
    layers.push(layer)
  return layers
}

/** The schema's definition by its kind: every schema is one of zod's own. */
const definitionOf = ({ _zod }: Schema) => (_zod as z.core.$ZodTypes['_zod']).def

function inner(schema: Schema): Schema | undefined {
  const def = definitionOf(schema)
  // A preprocess is a pipe that begins with a transform; the end of such a pipe describes what a client sends.
  if (def.type === 'pipe') return def.in._zod.def.type === 'transform' ? def.out : def.in
  if (def.type === 'lazy') return def.getter()
  return 'innerType' in def ? def.innerType : undefined
}
