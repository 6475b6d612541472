import { ScalarType, type DescField, type JsonValue } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import type { Catalogue } from './operations/catalogue.ts'
import type { Operation } from './operations/operations.ts'
import { CallError } from './statuses.ts'

/** A method as an agent reads about it. */
export interface Query {
  readonly method: string
  /** Field names with their types. */
  readonly request: Readonly<Record<string, string>>
}

type Ask = (operation: Operation, message: Uint8Array, signal: AbortSignal) => Promise<string>

const mostListed = 80
/** More than this an agent cannot read anyway. */
const longestAnswer = 24_000

/** The methods that only read, for an agent: those with a GET binding. */
export function createQueries(catalogue: Catalogue, ask: Ask) {
  const operations = (): Map<string, Operation> => {
    const found = new Map<string, Operation>()
    for (const operation of catalogue.current?.all ?? [])
      if (operation.rule.verb === 'GET' && operation.kind === 'unary' && !operation.off)
        found.set(nameOf(operation), operation)
    return found
  }
  /** The method of a name, of which the beginning may be left out where the rest says it. */
  const find = (name: string): Operation => {
    const known = operations()
    const asked = name.replace(/^\//, '').replace('/', '.')
    const exact = known.get(asked)
    if (exact) return exact
    const alike = [...known.keys()].filter((each) => each.endsWith(`.${asked}`))
    const [only] = alike
    if (alike.length === 1 && only !== undefined) return known.get(only)!
    throw alike.length > 1
      ? new RuntimeError('INVALID_INPUT', `"${name}" is the end of ${alike.length} names.`, {
          hint: `Say which: ${alike.slice(0, mostListed).join(', ')}.`,
        })
      : new RuntimeError('NOT_FOUND', `The ledger has no query called "${name}".`, {
          hint: 'Call query_ledger without a method to see what there is.',
        })
  }
  return {
    /** The methods with their fields, those alone whose names hold `about`. */
    list(about = ''): { methods: Query[] } {
      const wanted = about.toLowerCase()
      const methods = [...operations()].filter(([name]) => name.toLowerCase().includes(wanted))
      if (methods.length > mostListed)
        throw new RuntimeError('INVALID_INPUT', `There are ${methods.length} methods.`, {
          hint: `Narrow them with "about", for example one of: ${servicesOf(methods).join(', ')}.`,
        })
      return {
        methods: methods.map(([method, { rule }]) => ({
          method,
          request: Object.fromEntries(
            rule.method.input.fields.map((field) => [field.name, typeOf(field)]),
          ),
        })),
      }
    },

    /** The lines in the prompt once the capability is loaded. */
    prompt(): string | undefined {
      const methods = [...operations().keys()]
      if (methods.length === 0) return undefined
      const more = methods.length > mostListed ? ` and ${methods.length - mostListed} more` : ''
      return `Methods of query_ledger: ${methods.slice(0, mostListed).join(', ')}${more}.`
    },

    async ask(
      name: string,
      request: Record<string, unknown>,
      signal: AbortSignal,
    ): Promise<unknown> {
      const operation = find(name)
      try {
        // It came as JSON from the model.
        const json = await ask(operation, operation.encode(request as JsonValue), signal)
        if (json.length <= longestAnswer) return JSON.parse(json) as unknown
        return { truncated: true, characters: json.length, beginning: json.slice(0, longestAnswer) }
      } catch (thrown) {
        if (!(thrown instanceof CallError)) throw thrown
        throw asRuntimeError(thrown, name)
      }
    },
  }
}

function asRuntimeError(error: CallError, name: string): RuntimeError {
  const codes: Record<number, string> = {
    400: 'INVALID_INPUT',
    404: 'NOT_FOUND',
    501: 'NOT_IMPLEMENTED',
    503: 'UNAVAILABLE',
    504: 'UPSTREAM_TIMEOUT',
  }
  return new RuntimeError(codes[error.status] ?? 'UPSTREAM_FAILED', `${name}: ${error.message}`, {
    cause: error,
  })
}

const servicesOf = (methods: readonly (readonly [string, Operation])[]) => [
  ...new Set(methods.map(([, { rule }]) => rule.method.parent.typeName)),
]
const nameOf = ({ rule: { method } }: Operation) => `${method.parent.typeName}.${method.name}`

function typeOf(field: DescField): string {
  const one = field.enum
    ? field.enum.values.map(({ name }) => name).join('|')
    : (field.message?.typeName ?? scalarName(field.scalar))
  return field.fieldKind === 'list' ? `${one}[]` : field.fieldKind === 'map' ? `map of ${one}` : one
}

function scalarName(scalar: ScalarType | undefined): string {
  switch (scalar) {
    case ScalarType.BOOL:
      return 'boolean'
    case ScalarType.STRING:
      return 'string'
    case ScalarType.BYTES:
      return 'base64'
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return 'number'
    default:
      return 'integer'
  }
}
