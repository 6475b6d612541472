import { ScalarType, type DescField, type JsonValue } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import type { Catalogue } from './catalogue.ts'
import type { Operation } from './operations.ts'
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
  const list = (): { methods: Query[] } => ({
    methods: [...operations()].map(([method, { rule }]) => ({
      method,
      request: Object.fromEntries(
        rule.method.input.fields.map((field) => [field.name, typeOf(field)]),
      ),
    })),
  })
  return {
    list,

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
      const operation = operations().get(name.replace(/^\//, '').replace('/', '.'))
      if (operation === undefined)
        throw new RuntimeError('NOT_FOUND', `The ledger has no query called "${name}".`, {
          hint: 'Call query_ledger without a method to see what there is.',
        })
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
