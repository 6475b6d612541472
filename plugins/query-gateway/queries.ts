import { ScalarType, type DescField, type JsonValue } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import type { Catalogue } from './operations/catalogue.ts'
import type { Operation } from './operations/operations.ts'
import { CallError } from './statuses.ts'

/** The description of a method for an agent. */
export interface Query {
  readonly method: string
  /** The types of the request's fields, by their names. */
  readonly request: Readonly<Record<string, string>>
}

type Ask = (operation: Operation, message: Uint8Array, signal: AbortSignal) => Promise<string>

const mostListed = 80
/** The most characters of an answer that an agent gets whole. */
const longestAnswer = 24_000

/** The queries that an agent can ask: the methods with a GET binding, which only read. */
export class Queries {
  readonly #catalogue: Catalogue
  readonly #ask: Ask

  constructor(catalogue: Catalogue, ask: Ask) {
    this.#catalogue = catalogue
    this.#ask = ask
  }

  /** The methods whose names contain `about`, with their fields. */
  list(about = ''): { methods: Query[] } {
    const wanted = about.toLowerCase()
    const methods = [...this.#operations()].filter(([name]) => name.toLowerCase().includes(wanted))
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
  }

  /** The line of the prompt that lists the methods. */
  prompt(): string | undefined {
    const methods = [...this.#operations().keys()]
    if (methods.length === 0) return undefined
    const more = methods.length > mostListed ? ` and ${methods.length - mostListed} more` : ''
    return `Methods of query_ledger: ${methods.slice(0, mostListed).join(', ')}${more}.`
  }

  /** Asks a method. Of an answer that is too long the agent gets the beginning. */
  async ask(name: string, request: Record<string, unknown>, signal: AbortSignal): Promise<unknown> {
    const operation = this.#find(name)
    try {
      // The model gave the request as JSON.
      const json = await this.#ask(operation, operation.encode(request as JsonValue), signal)
      if (json.length <= longestAnswer) return JSON.parse(json) as unknown
      return { truncated: true, characters: json.length, beginning: json.slice(0, longestAnswer) }
    } catch (thrown) {
      if (!(thrown instanceof CallError)) throw thrown
      throw asRuntimeError(thrown, name)
    }
  }

  #operations(): Map<string, Operation> {
    const found = new Map<string, Operation>()
    for (const operation of this.#catalogue.current?.all ?? [])
      if (operation.rule.verb === 'GET' && operation.kind === 'unary' && !operation.off)
        found.set(nameOf(operation), operation)
    return found
  }

  /** Finds a method by its name, or by the end of its name where only one method has that end. */
  #find(name: string): Operation {
    const known = this.#operations()
    const asked = name.replace(/^\//, '').replace('/', '.')
    const exact = known.get(asked)
    if (exact) return exact
    const alike = [...known].filter(([each]) => each.endsWith(`.${asked}`))
    const [only] = alike
    if (alike.length === 1 && only !== undefined) return only[1]
    if (only === undefined)
      throw new RuntimeError('NOT_FOUND', `The ledger has no query called "${name}".`, {
        hint: 'Call query_ledger without a method to see what there is.',
      })
    const names = alike.slice(0, mostListed).map(([each]) => each)
    throw new RuntimeError('INVALID_INPUT', `"${name}" is the end of ${alike.length} names.`, {
      hint: `Say which: ${names.join(', ')}.`,
    })
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
