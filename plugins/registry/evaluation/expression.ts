import { didYouMean, type Fault } from '#core'
import { isObject, shown } from '../wants.ts'

/** What an expression comes to. */
export type Value = string | number | boolean
type Args = readonly unknown[]

/** What a rule could not settle: something is missing, of another type, or divided by zero. A person is asked then. */
export class Unsettled extends Error {}

/** The things that an expression names, by their roots: `claim`, `asset`, `values`. */
export interface Scope {
  readonly roots: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Named expressions, which are worked out once and only when something names them. */
  readonly named: Readonly<Record<string, unknown>>
  /** Earlier claims about the same asset, the newest first. */
  readonly history: readonly Readonly<Record<string, unknown>>[]
}

/** The bounds of an expression: how deep it nests, how many parts it has, how long a text in it is. */
export const bounds = { depth: 32, parts: 500, text: 1000, steps: 200_000 } as const

interface Rule {
  readonly least: number
  readonly most: number
}
const many = 20
const arities: Readonly<Record<string, Rule>> = {
  var: { least: 1, most: 2 },
  has: { least: 1, most: 1 },
  '==': { least: 2, most: 2 },
  '!=': { least: 2, most: 2 },
  '<': { least: 2, most: 3 },
  '<=': { least: 2, most: 3 },
  '>': { least: 2, most: 2 },
  '>=': { least: 2, most: 2 },
  and: { least: 1, most: many },
  or: { least: 1, most: many },
  not: { least: 1, most: 1 },
  if: { least: 3, most: 3 },
  in: { least: 2, most: 2 },
  '+': { least: 2, most: many },
  '*': { least: 2, most: many },
  '-': { least: 1, most: 2 },
  '/': { least: 2, most: 2 },
  min: { least: 1, most: many },
  max: { least: 1, most: many },
  abs: { least: 1, most: 1 },
  floor: { least: 1, most: 1 },
  round: { least: 1, most: 2 },
  days: { least: 1, most: 1 },
  year: { least: 1, most: 1 },
  count: { least: 0, most: 2 },
  sum: { least: 1, most: 3 },
  least: { least: 1, most: 3 },
  greatest: { least: 1, most: 3 },
}
/** The operators that look through the history, or through a list of the claim, and where the name of the list stands. */
const listAt: Readonly<Record<string, number>> = { count: 1, sum: 2, least: 2, greatest: 2 }
const overHistory = new Set(Object.keys(listAt))
/** How many items of a list count. */
const mostItems = 1000
const isLiteral = (value: unknown): value is Value =>
  typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value)

/** The operator of a part and what it works on; one thing that is no list stands for a list of one. */
function partsOf(expression: Readonly<Record<string, unknown>>): [string, Args] {
  const [[operator, args] = ['', []]] = Object.entries(expression)
  return [operator, Array.isArray(args) ? args : args === null ? [] : [args]]
}

/** What an expression may name, for the check when it is declared. */
export interface Names {
  /** The names under each root; undefined where any name may stand there. */
  readonly roots: Readonly<Record<string, readonly string[] | undefined>>
}

/** Collects the faults of expressions when they are declared, so that what is declared can always be worked out or says why not. */
export class ExpressionCheck {
  readonly #names: Names
  readonly #faults: Fault[]
  #parts = 0

  constructor(names: Names, faults: Fault[]) {
    this.#names = names
    this.#faults = faults
  }

  /** Checks one expression; `path` says where it stands. */
  check(expression: unknown, path: string, depth = 0, inHistory = false): void {
    const fault = (message: string) => void this.#faults.push({ path, message })
    if (this.#faults.length >= 20) return
    if (++this.#parts > bounds.parts) return fault(`give at most ${bounds.parts} parts in all`)
    if (depth > bounds.depth) return fault(`expressions nest deeper than ${bounds.depth} levels`)
    if (isLiteral(expression)) {
      if (typeof expression !== 'string' || expression.length <= bounds.text) return
      return fault(`give a text of at most ${bounds.text} characters`)
    }
    if (!isObject(expression) || Object.keys(expression).length !== 1)
      return fault(`give a value or { operator: [..] }, not ${shown(expression)}`)
    const [operator, args] = partsOf(expression)
    const arity = Object.hasOwn(arities, operator) ? arities[operator] : undefined
    if (!arity) {
      const meant = didYouMean(operator, Object.keys(arities))
      return fault(
        `there is no operator ${shown(operator)}; ${meant ? `did you mean "${meant}"?` : `there are ${Object.keys(arities).join(', ')}`}`,
      )
    }
    if (args.length < arity.least || args.length > arity.most)
      return fault(`"${operator}" takes ${rangeOf(arity)}, not ${args.length}`)
    if (operator === 'var' || operator === 'has') {
      this.#checkName(args[0], path, inHistory)
      if (args.length === 2) this.check(args[1], `${path}.${operator}.1`, depth + 1, inHistory)
      return
    }
    if (overHistory.has(operator) && inHistory)
      return fault(`"${operator}" does not stand in another look through the history`)
    const inner = inHistory || overHistory.has(operator)
    for (const [at, arg] of args.entries())
      if (operator === 'in' && at === 1) this.#checkList(arg, `${path}.in.1`)
      else if (listAt[operator] === at) this.#checkName(arg, `${path}.${operator}.${at}`, false)
      else this.check(arg, `${path}.${operator}.${at}`, depth + 1, inner)
  }

  #checkList(list: unknown, path: string): void {
    if (Array.isArray(list) && list.length <= 100 && list.every(isLiteral)) return
    this.#faults.push({ path, message: 'give a list of at most 100 values' })
  }

  #checkName(name: unknown, path: string, inHistory: boolean): void {
    const fault = (message: string) => void this.#faults.push({ path, message })
    if (typeof name !== 'string' || name.length > 200)
      return fault(`give the name of something, such as "claim.minutes", not ${shown(name)}`)
    const [root = '', first = ''] = name.split('.')
    const roots = inHistory
      ? [...Object.keys(this.#names.roots), 'each']
      : Object.keys(this.#names.roots)
    if (!roots.includes(root) || first === '')
      return fault(
        `"${name}" is not here; names begin with ${roots.map((one) => `${one}.`).join(', ')}`,
      )
    // What an item of a list has is known only when the rules are worked out.
    const known = root === 'each' ? undefined : this.#names.roots[root]
    if (!known || known.includes(first) || first.startsWith('@')) return
    const meant = didYouMean(first, known)
    fault(
      `"${name}" is not here; ${meant ? `did you mean "${root}.${meant}"?` : `${root} has ${known.slice(0, 20).join(', ') || 'nothing'}`}`,
    )
  }
}

const rangeOf = ({ least, most }: Rule) =>
  least === most ? `${least} ${least === 1 ? 'part' : 'parts'}` : `${least} to ${most} parts`

/** The names of values that an expression needs: to find those that need themselves. */
export function valuesNamedIn(expression: unknown, depth = 0): string[] {
  if (!isObject(expression) || depth > bounds.depth) return []
  const [operator, args] = partsOf(expression)
  const [name] = args
  if (operator === 'var' || operator === 'has') {
    const inDefault = valuesNamedIn(args[1], depth + 1)
    if (typeof name !== 'string' || !name.startsWith('values.')) return inDefault
    return [name.slice('values.'.length), ...inDefault]
  }
  return args.flatMap((arg) => valuesNamedIn(arg, depth + 1))
}

/** Works out expressions that were checked when they were declared. There is no loop in the language, and every step is counted. */
export class Evaluator {
  readonly #scope: Scope
  readonly #worked = new Map<string, Value>()
  #steps = 0

  constructor(scope: Scope) {
    this.#scope = scope
  }

  /** The values that were named so far, which the reasons of a verdict show. */
  get worked(): Readonly<Record<string, Value>> {
    return Object.fromEntries(this.#worked)
  }

  /** What an expression comes to; throws `Unsettled` where it comes to nothing. */
  value(expression: unknown, each?: Readonly<Record<string, unknown>>): Value {
    if (++this.#steps > bounds.steps)
      throw new Unsettled(`it takes more than ${bounds.steps} steps`)
    if (!isObject(expression)) return expression as Value // checked when it was declared
    const [operator, args] = partsOf(expression)
    const number = (at: number) => numberOf(this.value(args[at], each), operator)
    switch (operator) {
      case 'var':
        return this.#named(String(args[0]), each, args)
      case 'has':
        return this.#find(String(args[0]), each) !== undefined
      case '==':
      case '!=':
        return (this.value(args[0], each) === this.value(args[1], each)) === (operator === '==')
      case 'and':
        return args.every((arg) => this.truth(arg, each))
      case 'or':
        return args.some((arg) => this.truth(arg, each))
      case 'not':
        return !this.truth(args[0], each)
      case 'if':
        return this.value(this.truth(args[0], each) ? args[1] : args[2], each)
      case 'in':
        return (args[1] as Args).includes(this.value(args[0], each))
      case 'days':
        return timeOf(this.value(args[0], each)) / 86_400_000
      case 'year':
        return new Date(timeOf(this.value(args[0], each))).getUTCFullYear()
      case 'abs':
        return Math.abs(number(0))
      case 'floor':
        return Math.floor(number(0))
      case 'round':
        return rounded(number(0), args.length > 1 ? number(1) : 0)
      case '-':
        return args.length === 1 ? -number(0) : finite(number(0) - number(1))
      case '/':
        return quotient(number(0), number(1))
    }
    if (overHistory.has(operator)) return this.#over(operator, args)
    const values = args.map((arg) => this.value(arg, each))
    if (operator.startsWith('<') || operator.startsWith('>')) return ordered(operator, values)
    return folded(
      operator,
      values.map((value) => numberOf(value, operator)),
    )
  }

  /** What a condition comes to: true or false, and nothing that stands for them. */
  truth(expression: unknown, each?: Readonly<Record<string, unknown>>): boolean {
    const value = this.value(expression, each)
    if (typeof value === 'boolean') return value
    throw new Unsettled(`a condition comes to ${shown(value)}, which is neither true nor false`)
  }

  /** The number that an expression comes to. */
  number(expression: unknown): number {
    return numberOf(this.value(expression), 'a quantity')
  }

  #over(operator: string, args: Args): number {
    const condition = operator === 'count' ? args[0] : args[1]
    const list = args[listAt[operator] ?? 0]
    const items = typeof list === 'string' ? this.#listAt(list) : this.#scope.history
    const kept = items.filter((each) => condition === undefined || this.truth(condition, each))
    if (operator === 'count') return kept.length
    const values = kept.map((each) => numberOf(this.value(args[0], each), operator))
    if (operator === 'sum') return finite(values.reduce((sum, value) => sum + value, 0))
    if (values.length === 0) throw new Unsettled(`"${operator}" has nothing to look at`)
    return operator === 'least' ? Math.min(...values) : Math.max(...values)
  }

  #named(name: string, each: Readonly<Record<string, unknown>> | undefined, args: Args): Value {
    const value = this.#find(name, each)
    if (value !== undefined) return value
    if (args.length > 1) return this.value(args[1], each)
    throw new Unsettled(`"${name}" is missing`)
  }

  #find(name: string, each: Readonly<Record<string, unknown>> | undefined): Value | undefined {
    const [root = '', ...path] = name.split('.')
    if (root === 'values') return this.#valueNamed(path.join('.'))
    let value: unknown = root === 'each' ? each : this.#scope.roots[root]
    for (const step of path) {
      if (!isObject(value) || !Object.hasOwn(value, step)) return undefined
      value = value[step]
    }
    return isLiteral(value) ? value : undefined
  }

  #listAt(name: string): Readonly<Record<string, unknown>>[] {
    const [root = '', ...path] = name.split('.')
    let value: unknown = this.#scope.roots[root]
    for (const step of path)
      value = isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined
    if (!Array.isArray(value)) throw new Unsettled(`"${name}" is no list`)
    if (value.length > mostItems) throw new Unsettled(`"${name}" has more than ${mostItems} items`)
    return value.map((item) => (isObject(item) ? item : { value: item }))
  }

  #valueNamed(name: string): Value {
    const worked = this.#worked.get(name)
    if (worked !== undefined) return worked
    const value = this.value(this.#scope.named[name])
    this.#worked.set(name, value)
    return value
  }
}

function numberOf(value: Value, by: string): number {
  if (typeof value === 'number') return value
  throw new Unsettled(`"${by}" needs a number, not ${shown(value)}`)
}

function finite(value: number): number {
  if (Number.isFinite(value)) return value
  throw new Unsettled('a number is too large')
}

function quotient(a: number, b: number): number {
  if (b === 0) throw new Unsettled(`${a} is divided by zero`)
  return finite(a / b)
}

function timeOf(value: Value): number {
  const time = typeof value === 'string' ? Date.parse(value) : NaN
  if (Number.isFinite(time)) return time
  throw new Unsettled(`${shown(value)} is no time`)
}

function rounded(value: number, digits: number): number {
  const factor = 10 ** Math.min(12, Math.max(0, Math.trunc(digits)))
  return finite(Math.round(value * factor) / factor)
}

/** Whether values stand in order; numbers among themselves, or texts by their characters. */
function ordered(operator: string, values: readonly Value[]): boolean {
  const [first] = values
  if (typeof first === 'boolean' || values.some((value) => typeof value !== typeof first))
    throw new Unsettled(
      `"${operator}" compares ${values.map((value) => shown(value)).join(' and ')}`,
    )
  const holds = (a: Value, b: Value) =>
    operator === '<' ? a < b : operator === '<=' ? a <= b : operator === '>' ? a > b : a >= b
  return values.every((value, at) => at === 0 || holds(values[at - 1] ?? value, value))
}

function folded(operator: string, values: readonly number[]): number {
  if (operator === 'min') return Math.min(...values)
  if (operator === 'max') return Math.max(...values)
  return finite(
    operator === '+' ? values.reduce((a, b) => a + b, 0) : values.reduce((a, b) => a * b, 1),
  )
}
