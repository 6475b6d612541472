import { didYouMean } from '#core'
import { types } from '../protocols/property-types.ts'
import { invalid } from '../refusal.ts'
import { isWithin, mostCharacters } from '../indexes/values.ts'
import type { IndexRow } from '../indexes/tables.ts'
import { shown } from '../wants.ts'
import type { Comparison, Condition, Literal, Operator } from './grammar.ts'

/** An index that answers a comparison, and the values of the comparison as this index keeps them. */
export interface Answering {
  readonly row: IndexRow
  readonly values: readonly (string | number)[]
}

/** A condition whose names are known and whose values fit. */
export type Bound =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Bound[] }
  | { readonly kind: 'not'; readonly part: Bound }
  | Property
  | Field
  | EdgeCondition

/** A comparison of an indexed property. */
export interface Property {
  readonly kind: 'property'
  readonly path: string
  readonly operator: Operator
  /** The indexes that answer it, by the protocol that declares each: it is true of entities of these protocols alone. */
  readonly by: ReadonlyMap<string, Answering>
}

/** A comparison of a field of the entity itself. */
export interface Field {
  readonly kind: 'field'
  readonly name: FieldName
  readonly operator: Operator
  readonly values: readonly (string | number)[]
}

/** Whether the entity has an edge of a role, to or from one of some entities. */
export interface EdgeCondition {
  readonly kind: 'edge'
  readonly direction: 'out' | 'in'
  readonly role: string
  readonly dids: readonly string[]
}

const equalities = ['=', '!=', 'in', 'prefix'] as const
const orders = ['=', '!=', 'in', '<', '<=', '>', '>=', 'between'] as const
const fields = {
  did: equalities,
  type: equalities,
  class: equalities,
  controller: equalities,
  protocol: equalities,
  created: orders,
  updated: orders,
  text: ['contains'],
} as const satisfies Record<string, readonly Operator[]>
type FieldName = keyof typeof fields
const fieldNames = Object.keys(fields).map((name) => `@${name}`)
const isField = (name: string): name is FieldName => Object.hasOwn(fields, name)

const operators: Readonly<Record<IndexRow['type'], readonly Operator[]>> = {
  string: [...orders, 'prefix', 'contains'],
  number: orders,
  'date-time': orders,
  boolean: ['=', '!=', 'in'],
  geo: ['within'],
}

/** The most protocols whose indexes one comparison asks. */
const mostAsked = 50

/** The indexed properties that a query may name, by their paths. */
export type Known = ReadonlyMap<string, readonly IndexRow[]>

/** Finds the index of each comparison; refuses what has none, and values of another type. */
export function bind(condition: Condition, known: Known): Bound {
  if (condition.kind === 'not') return { kind: 'not', part: bind(condition.part, known) }
  if (condition.kind !== 'compare')
    return { kind: condition.kind, parts: condition.parts.map((part) => bind(part, known)) }
  const { path } = condition
  const edge = /^@(out|in)\.(.+)$/.exec(path)
  if (edge) return edgeOf(edge[1] === 'in' ? 'in' : 'out', edge[2] ?? '', condition)
  if (path.startsWith('@')) return fieldOf(path.slice(1), condition)
  return propertyOf(condition, known)
}

function edgeOf(direction: 'out' | 'in', role: string, condition: Comparison): EdgeCondition {
  const { path, operator, values } = condition
  mustKnow(path, operator, ['=', 'in'])
  return { kind: 'edge', direction, role, dids: values.map((value) => text(path, value)) }
}

function fieldOf(name: string, { path, operator, values }: Comparison): Field {
  if (!isField(name)) throw unknownName(path, [...fieldNames, '@out.<role>', '@in.<role>'])
  mustKnow(path, operator, fields[name])
  const isTime = name === 'created' || name === 'updated'
  return {
    kind: 'field',
    name,
    operator,
    values: values.map((value) => (isTime ? time(path, value) : text(path, value))),
  }
}

function propertyOf({ path, operator, values }: Comparison, known: Known): Property {
  const rows = indexesAt(path, known)
  const fitting = rows.filter(({ type }) => operators[type].includes(operator))
  if (fitting.length === 0 && rows[0]) mustKnow(path, operator, operators[rows[0].type])
  const by = new Map<string, Answering>()
  let fault: unknown
  for (const row of fitting) {
    try {
      const fit = operator === 'within' ? box(path, values) : values.map((v) => kept(path, v, row))
      by.set(row.protocol, { row, values: fit })
    } catch (error) {
      fault = error
    }
  }
  if (by.size === 0) throw fault
  return { kind: 'property', path, operator, by }
}

/** The indexes of a property; 400 where there is none that the caller knows. `part` of the query names the property. */
export function indexesAt(
  path: string,
  known: Known,
  part: 'where' | 'sort' = 'where',
): readonly IndexRow[] {
  const rows = known.get(path)
  if (!rows) throw unknownName(path, [...known.keys()], part)
  if (rows.length <= mostAsked) return rows
  throw invalid(part, `more than ${mostAsked} protocols index "${path}"; name one with @protocol`)
}

function unknownName(path: string, names: readonly string[], part = 'where') {
  const meant = didYouMean(path, names)
  const some = names.slice(0, 20).join(', ')
  return invalid(
    part,
    `no index has "${path}"; ${meant ? `did you mean "${meant}"?` : some === '' ? 'no protocol declares any' : `there are ${some}`}`,
    'A protocol declares its indexes: { "indexes": { "power": "number" } }.',
  )
}

function mustKnow(path: string, operator: Operator, known: readonly Operator[]): void {
  if (known.includes(operator)) return
  throw invalid('where', `"${path}" is not compared by "${operator}", but by ${known.join(', ')}`)
}

const clash = (path: string, what: string, value: Literal) =>
  invalid('where', `"${path}" is compared with ${what}, not with ${shown(value)}`)

function text(path: string, value: Literal): string {
  if (typeof value !== 'string') throw clash(path, 'a text', value)
  if (value.length < 1025) return value
  throw invalid('where', `"${path}" is compared with a text of at most 1024 characters`)
}

function time(path: string, value: Literal): number {
  const ms = types['date-time'].is(value) ? Date.parse(String(value)) : NaN
  if (Number.isNaN(ms)) throw clash(path, types['date-time'].wanted, value)
  return ms
}

function kept(path: string, value: Literal, { type }: IndexRow): string | number {
  if (type === 'date-time') return time(path, value)
  if (type === 'boolean') {
    if (typeof value === 'boolean') return Number(value)
    throw clash(path, 'true or false', value)
  }
  if (type === 'number') {
    if (typeof value === 'number') return value
    throw clash(path, 'a number', value)
  }
  if (typeof value !== 'string') throw clash(path, 'a text', value)
  if (value.length < mostCharacters) return value
  throw invalid(
    'where',
    `"${path}" is compared with a text of less than ${mostCharacters} characters`,
  )
}

function box(path: string, values: readonly Literal[]): number[] {
  const [south, west, north, east] = values
  if (isWithin(south, 90) && isWithin(north, 90) && isWithin(west, 180) && isWithin(east, 180)) {
    // A box whose west is greater than its east goes across the date line.
    if (south <= north) return [south, west, north, east]
  }
  throw invalid(
    'where',
    `"${path}" is within (south, west, north, east), in degrees, south before north`,
  )
}
