import { invalid } from '../refusal.ts'
import { compareValues } from '../indexes/values.ts'
import type { IndexRow } from '../indexes/tables.ts'
import { indexesAt, type Bound, type EdgeCondition, type Known, type Property } from './binding.ts'

/** A part of an index: from and to a value, both included. The conditions themselves look at what is open. */
export interface Range {
  readonly low: string | number
  readonly high: string | number
}

/** The values of an indexed property, in some ranges. */
export interface ValuesDriver {
  readonly kind: 'values'
  readonly path: string
  readonly isText: boolean
  readonly indexes: readonly IndexRow[]
  /** Without overlap, in the order of the walk. */
  readonly ranges: readonly Range[]
  readonly descending: boolean
}

/** What a query walks along, in keyset order. Every other condition is checked on what the walk meets. */
export type Driver =
  | ValuesDriver
  | { readonly kind: 'edges'; readonly condition: EdgeCondition; readonly did: string }
  | {
      readonly kind: 'entities'
      readonly only?: readonly ['type' | 'protocol' | 'controller', string]
      readonly descending: boolean
    }

/** Above every text: no text of Unicode begins with two of the last code point. */
const last = '\u{10FFFF}\u{10FFFF}'
const everyNumber: Range = { low: -Number.MAX_VALUE, high: Number.MAX_VALUE }
const everyText: Range = { low: '', high: last }
const isText = ({ type }: IndexRow): boolean => type === 'string'

/**
 * What a query can walk along: its sort alone; else each edge that must be there, and the first condition that must hold and
 * that an index answers; else all entities. The order depends on nothing but the query, so that a cursor can name one of them.
 */
export function plan(
  condition: Bound | undefined,
  sort: string | undefined,
  known: Known,
): readonly Driver[] {
  const musts = condition === undefined ? [] : conjunctsOf(condition)
  const descending = sort?.startsWith('-') ?? false
  const path = descending ? sort?.slice(1) : sort
  if (path !== undefined && path !== '@created') return [sorted(path, descending, musts, known)]
  const only = columnOf(musts)
  if (path === '@created') return [{ kind: 'entities', only, descending }]
  const edges = edgeDrivers(condition)
  const values = valuesOf(musts)
  if (values) return [...edges, values]
  return edges.length > 0 ? edges : [{ kind: 'entities', only, descending: false }]
}

/**
 * What a sorted query can gather its entities from instead of walking along its sort: the edges that must be there, and what
 * must hold of another property.
 */
export function besides(condition: Bound | undefined, sort: string): readonly Driver[] {
  const path = sort.replace(/^-/, '')
  const musts = condition === undefined ? [] : conjunctsOf(condition)
  const values = valuesOf(musts.filter((must) => must.kind !== 'property' || must.path !== path))
  return [...edgeDrivers(condition), ...(values ? [values] : [])]
}

/** The most edges among which a query chooses what it walks along. */
const mostEdges = 5

const edgeDrivers = (condition: Bound | undefined): Driver[] =>
  edgesThatMust(condition)
    .filter(({ dids }) => dids.length === 1)
    .slice(0, mostEdges)
    .map((edge) => ({ kind: 'edges', condition: edge, did: edge.dids[0] ?? '' }))

/** The conditions on edges that must hold. */
export const edgesThatMust = (condition: Bound | undefined): EdgeCondition[] =>
  condition === undefined ? [] : conjunctsOf(condition).filter((must) => must.kind === 'edge')

function valuesOf(musts: readonly Bound[]): ValuesDriver | undefined {
  const properties = musts.filter((must) => must.kind === 'property')
  for (const operators of [
    ['='],
    ['in'],
    ['prefix'],
    ['between'],
    ['<', '<=', '>', '>='],
    ['within'],
  ]) {
    const found = properties.find(
      (one) =>
        operators.includes(one.operator) && hasOneTable([...one.by.values()].map((by) => by.row)),
    )
    if (found) return along(found, properties)
  }
  return undefined
}

function conjunctsOf(condition: Bound): Bound[] {
  return condition.kind === 'and' ? condition.parts.flatMap(conjunctsOf) : [condition]
}

const hasOneTable = (rows: readonly IndexRow[]) => new Set(rows.map(isText)).size === 1

function along({ path, by }: Property, properties: readonly Property[]): ValuesDriver {
  const indexes = [...by.values()].map(({ row }) => row)
  const ofPath = properties.filter((one) => one.path === path)
  const text = indexes.every(isText)
  return {
    kind: 'values',
    path,
    isText: text,
    indexes,
    ranges: rangesOf(ofPath, text),
    descending: false,
  }
}

function sorted(
  path: string,
  descending: boolean,
  musts: readonly Bound[],
  known: Known,
): ValuesDriver {
  const protocol = columnOf(
    musts.filter((must) => must.kind === 'field' && must.name === 'protocol'),
  )
  const rows = indexesAt(path, known, 'sort').filter(
    (row) => !protocol || row.protocol === protocol[1],
  )
  const [first] = rows
  if (!first || rows.some(({ type }) => type !== first.type) || first.type === 'geo')
    throw invalid('sort', `"${path}" has no one order here`, 'Name one protocol with @protocol.')
  const ofPath = musts.filter((must) => must.kind === 'property').filter((one) => one.path === path)
  const text = isText(first)
  const ranges = rangesOf(ofPath, text)
  return {
    kind: 'values',
    path,
    isText: text,
    indexes: rows,
    ranges: descending ? ranges.toReversed() : ranges,
    descending,
  }
}

/** The smallest ranges in which a value has to lie; of a list of values any item may, so such ranges never meet. */
function rangesOf(conditions: readonly Property[], text: boolean): Range[] {
  const all = [text ? everyText : everyNumber]
  const [best] = conditions
    .map((condition) => rangesFor(condition, text))
    .filter((ranges) => ranges !== undefined)
    .sort((a, b) => breadthOf(a) - breadthOf(b))
  return best ?? all
}

/** How much of an index some ranges cover: points least, and what is open at an end most. */
const breadthOf = (ranges: readonly Range[]): number =>
  ranges.every(({ low, high }) => low === high) ? 0 : 1

function rangesFor({ operator, by }: Property, text: boolean): Range[] | undefined {
  const [answering] = by.values()
  const [value] = answering?.values ?? []
  if (!answering || value === undefined || isText(answering.row) !== text) return undefined
  const { low, high } = text ? everyText : everyNumber
  switch (operator) {
    case '=':
    case 'in':
      return [...new Set(answering.values)]
        .sort(compareValues)
        .map((one) => ({ low: one, high: one }))
    case 'prefix':
      return [{ low: value, high: `${value}${last}` }]
    case '<':
    case '<=':
      return [{ low, high: value }]
    case '>':
    case '>=':
      return [{ low: value, high }]
    case 'between':
      return [{ low: value, high: answering.values[1] ?? value }]
    case 'within':
      return [{ low: value, high: answering.values[2] ?? high }]
    default:
      return undefined
  }
}

const columns = ['protocol', 'controller', 'type'] as const

function columnOf(musts: readonly Bound[]) {
  for (const column of columns)
    for (const must of musts)
      if (must.kind === 'field' && must.name === column && must.operator === '=')
        return [column, String(must.values[0])] as const
  return undefined
}
