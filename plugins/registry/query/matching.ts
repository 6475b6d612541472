import { at, compareValues, namesOf, placeOf, valuesAt } from '../indexes/values.ts'
import type { EntityRow } from '../tables.ts'
import type { Answering, Bound, EdgeCondition, Field, Property } from './binding.ts'
import type { Operator } from './grammar.ts'

/** The entities of a slice that each condition on edges holds of. */
export type EdgesOf = ReadonlyMap<EdgeCondition, ReadonlySet<string>>

/** An entity with its properties, parsed once. */
export interface Read {
  readonly row: EntityRow
  readonly properties: Readonly<Record<string, unknown>>
}

/** Whether a condition holds of an entity. */
export function holds(condition: Bound, entity: Read, edges: EdgesOf): boolean {
  switch (condition.kind) {
    case 'and':
      return condition.parts.every((part) => holds(part, entity, edges))
    case 'or':
      return condition.parts.some((part) => holds(part, entity, edges))
    case 'not':
      return !holds(condition.part, entity, edges)
    case 'edge':
      return edges.get(condition)?.has(entity.row.did) ?? false
    case 'field':
      return fieldHolds(condition, entity.row)
    case 'property':
      return propertyHolds(condition, entity)
  }
}

function fieldHolds({ name, operator, values }: Field, row: EntityRow): boolean {
  if (name === 'text') return row.search.includes(String(values[0]).toLowerCase())
  const value =
    name === 'created'
      ? Date.parse(row.created_at)
      : name === 'updated'
        ? Date.parse(row.updated_at)
        : row[name]
  return value === null ? operator === '!=' : compares(value, operator, values)
}

function propertyHolds({ path, operator, by }: Property, { row, properties }: Read): boolean {
  const answering = row.protocol === null ? undefined : by.get(row.protocol)
  if (!answering) return false
  const names = namesOf(path)
  if (operator === 'within') return isInside(placeOf(at(properties, names)), answering)
  if (operator === 'contains') return containsText(at(properties, names), answering)
  const found = valuesAt(properties, names, answering.row.type)
  if (operator === '!=')
    return found.length > 0 && found.every((value) => compares(value, '!=', answering.values))
  return found.some((value) => compares(value, operator, answering.values))
}

function containsText(value: unknown, { values }: Answering): boolean {
  const sought = String(values[0]).toLowerCase()
  const items: readonly unknown[] = Array.isArray(value) ? value : [value]
  return items.some((item) => typeof item === 'string' && item.toLowerCase().includes(sought))
}

function isInside(place: ReturnType<typeof placeOf>, { values }: Answering): boolean {
  if (!place) return false
  const [south = 0, west = 0, north = 0, east = 0] = values.map(Number)
  const { latitude, longitude } = place
  if (latitude < south || latitude > north) return false
  return west <= east
    ? longitude >= west && longitude <= east
    : longitude >= west || longitude <= east
}

function compares(
  value: string | number,
  operator: Operator,
  values: readonly (string | number)[],
): boolean {
  const [wanted = ''] = values
  switch (operator) {
    case '=':
    case 'in':
      return values.includes(value)
    case '!=':
      return value !== wanted
    case 'between':
      return compareValues(value, wanted) >= 0 && compareValues(value, values[1] ?? wanted) <= 0
    case 'prefix':
      return typeof value === 'string' && value.startsWith(String(wanted))
    case '<':
      return compareValues(value, wanted) < 0
    case '<=':
      return compareValues(value, wanted) <= 0
    case '>':
      return compareValues(value, wanted) > 0
    case '>=':
      return compareValues(value, wanted) >= 0
    default:
      return false
  }
}
