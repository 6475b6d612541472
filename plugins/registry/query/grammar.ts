import { invalid } from '../refusal.ts'
import { shown } from '../wants.ts'

/** A value that a condition compares with. */
export type Literal = string | number | boolean

/** How a condition compares. */
export type Operator =
  '=' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'between' | 'prefix' | 'contains' | 'within'

/** A condition on one property, or on a field of the entity itself, whose name begins with `@`. */
export interface Comparison {
  readonly kind: 'compare'
  readonly path: string
  readonly operator: Operator
  /** One value; of `in` all of them, of `between` both ends, of `within` south, west, north and east. */
  readonly values: readonly Literal[]
}

/** A condition as it is parsed. */
export type Condition =
  | Comparison
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Condition[] }
  | { readonly kind: 'not'; readonly part: Condition }

/** The values of `$name` in a condition. */
export type Parameters = Readonly<Record<string, Literal>>

/** How long a condition may be, in bytes. */
export const mostBytes = 10_000
/** How deep conditions nest. */
export const deepest = 32
/** How many comparisons one condition has. */
const mostComparisons = 200
/** How many values an `in` lists. */
const mostListed = 100

type Kind = 'word' | 'path' | 'sign' | 'text' | 'number' | 'parameter' | 'end'
interface Token {
  readonly kind: Kind
  readonly text: string
  readonly at: number
}

const patterns: readonly [Kind, RegExp][] = [
  ['number', /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/y],
  ['path', /@?[\p{L}_][\p{L}\p{N}_-]*(?:\.[\p{L}\p{N}_][\p{L}\p{N}_-]*)*/uy],
  ['parameter', /\$[A-Za-z_]\w{0,63}/y],
  ['text', /'(?:[^']|'')*'|"(?:[^"\\]|\\["\\])*"/y],
  ['sign', /!=|<=|>=|[=<>(),]/y],
]
const space = /\s*/y
const words = new Set([
  'and',
  'or',
  'not',
  'in',
  'between',
  'prefix',
  'contains',
  'within',
  'true',
  'false',
])

function tokensOf(source: string): Token[] {
  const tokens: Token[] = []
  for (let at = 0; ;) {
    space.lastIndex = at
    space.test(source)
    at = space.lastIndex
    if (at >= source.length) return [...tokens, { kind: 'end', text: '', at }]
    const token = tokenAt(source, at)
    if (!token) throw fault(at, `${shown(source.slice(at, at + 20))} cannot be read`)
    tokens.push(token)
    at += token.text.length
  }
}

function tokenAt(source: string, at: number): Token | undefined {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = at
    const [text] = pattern.exec(source) ?? []
    if (text === undefined) continue
    return kind === 'path' && words.has(text.toLowerCase())
      ? { kind: 'word', text, at }
      : { kind, text, at }
  }
  return undefined
}

const fault = (at: number, message: string) =>
  invalid('where', `at position ${at}: ${message}`, 'The grammar stands in docs/registry.md.')

/** Parses a condition. What it compares with stays a value all the way: nothing of it ever becomes part of SQL. */
export function parse(source: string, parameters: Parameters = {}): Condition {
  if (Buffer.byteLength(source) > mostBytes)
    throw invalid('where', `give a condition of at most ${mostBytes} bytes`)
  return new Parser(tokensOf(source), parameters).all()
}

class Parser {
  readonly #tokens: readonly Token[]
  readonly #parameters: Parameters
  #at = 0
  #comparisons = 0

  constructor(tokens: readonly Token[], parameters: Parameters) {
    this.#tokens = tokens
    this.#parameters = parameters
  }

  all(): Condition {
    const condition = this.#or(0)
    const { kind, text, at } = this.#token
    if (kind !== 'end') throw fault(at, `"and", "or" or the end belongs here, not ${shown(text)}`)
    return condition
  }

  get #token(): Token {
    return this.#tokens[this.#at]! // the last token is the end, which nothing takes
  }

  /** Takes the next token if it is this word or sign. */
  #takes(word: string): boolean {
    const { kind, text } = this.#token
    if ((kind !== 'word' && kind !== 'sign') || text.toLowerCase() !== word) return false
    this.#at++
    return true
  }

  #expect(word: string): void {
    const { at, text } = this.#token
    if (!this.#takes(word)) throw fault(at, `"${word}" belongs here, not ${shown(text)}`)
  }

  #or(depth: number): Condition {
    return this.#several('or', depth, () => this.#several('and', depth, () => this.#not(depth)))
  }

  #several(kind: 'and' | 'or', depth: number, one: () => Condition): Condition {
    if (depth > deepest)
      throw fault(this.#token.at, `conditions nest deeper than ${deepest} levels`)
    const first = one()
    const parts = [first]
    while (this.#takes(kind)) parts.push(one())
    return parts.length > 1 ? { kind, parts } : first
  }

  #not(depth: number): Condition {
    if (depth > deepest)
      throw fault(this.#token.at, `conditions nest deeper than ${deepest} levels`)
    if (this.#takes('not')) return { kind: 'not', part: this.#not(depth + 1) }
    if (!this.#takes('(')) return this.#comparison()
    const inner = this.#or(depth + 1)
    this.#expect(')')
    return inner
  }

  #comparison(): Condition {
    const { kind, text: path, at } = this.#token
    if (kind !== 'path') throw fault(at, `the name of a property belongs here, not ${shown(path)}`)
    if (++this.#comparisons > mostComparisons)
      throw fault(at, `give at most ${mostComparisons} comparisons`)
    this.#at++
    const compare = (operator: Operator, values: readonly Literal[]): Comparison => ({
      kind: 'compare',
      path,
      operator,
      values,
    })
    for (const sign of ['=', '!=', '<=', '>=', '<', '>', 'prefix', 'contains'] as const)
      if (this.#takes(sign)) return compare(sign, [this.#literal()])
    if (this.#takes('in')) return compare('in', this.#list(1, mostListed))
    if (this.#takes('within')) return compare('within', this.#list(4, 4))
    if (this.#takes('between')) {
      const low = this.#literal()
      this.#expect('and')
      return compare('between', [low, this.#literal()])
    }
    const next = this.#token
    throw fault(
      next.at,
      `after "${path}" comes =, !=, <, <=, >, >=, in, between, prefix, contains or within`,
    )
  }

  #list(least: number, most: number): Literal[] {
    const { at } = this.#token
    this.#expect('(')
    const values = [this.#literal()]
    while (this.#takes(',')) values.push(this.#literal())
    this.#expect(')')
    if (values.length >= least && values.length <= most) return values
    throw fault(at, least === most ? `give ${most} values` : `give ${least} to ${most} values`)
  }

  #literal(): Literal {
    const { kind, text, at } = this.#token
    if (this.#takes('true')) return true
    if (this.#takes('false')) return false
    this.#at++
    if (kind === 'number') {
      const value = Number(text)
      if (Number.isFinite(value)) return value
      throw fault(at, `${shown(text)} is too large for a number`)
    }
    if (kind === 'text')
      return text.startsWith("'")
        ? text.slice(1, -1).replaceAll("''", "'")
        : text.slice(1, -1).replace(/\\(["\\])/g, '$1')
    if (kind === 'parameter') {
      const name = text.slice(1)
      const value = Object.hasOwn(this.#parameters, name) ? this.#parameters[name] : undefined
      if (value !== undefined) return value
      throw invalid(`parameters.${name}`, `missing; the condition names ${text}`)
    }
    throw fault(at, `a text in quotes, a number, true or false belongs here, not ${shown(text)}`)
  }
}
