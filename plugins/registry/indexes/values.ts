import { types } from '../protocols/property-types.ts'
import { isObject } from '../wants.ts'
import type { IndexType } from './tables.ts'

/** How many characters of a text an index keeps. A text in a query is shorter, so it never equals one that was cut. */
export const mostCharacters = 200
/** How many items of a list an index keeps. */
const mostItems = 100

/** A place, in degrees. */
export interface Place {
  readonly latitude: number
  readonly longitude: number
}

/** A path as it is declared and asked for: names with dots between them. A name that holds a dot is not indexed. */
export const namesOf = (path: string): string[] => path.split('.')

/** The values at a path that an index of this type keeps; of a list each item. */
export function valuesAt(
  properties: Readonly<Record<string, unknown>>,
  names: readonly string[],
  type: IndexType,
): (string | number)[] {
  const found = at(properties, names)
  const items = Array.isArray(found) && type !== 'geo' ? found.slice(0, mostItems) : [found]
  const values = new Set<string | number>()
  for (const item of items) {
    const value = asIndexed(item, type)
    if (value !== undefined) values.add(value)
  }
  return [...values]
}

/** The value at a path, by own members alone. */
export function at(properties: Readonly<Record<string, unknown>>, names: readonly string[]) {
  let value: unknown = properties
  for (const name of names) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** A value as an index of this type keeps it; undefined where it is of another type. */
export function asIndexed(value: unknown, type: IndexType): string | number | undefined {
  if (type === 'geo') return placeOf(value)?.latitude
  if (type === 'boolean') return typeof value === 'boolean' ? Number(value) : undefined
  if (type === 'number') return typeof value === 'number' ? value : undefined
  if (typeof value !== 'string') return undefined
  if (type === 'string') return value.slice(0, mostCharacters).toWellFormed()
  const time = types['date-time'].is(value) ? Date.parse(value) : NaN
  return Number.isNaN(time) ? undefined : time
}

/** The place that a value is: `{ latitude, longitude }`, or a Point of GeoJSON. */
export function placeOf(value: unknown): Place | undefined {
  if (!isObject(value)) return undefined
  const [east, north] =
    value.type === 'Point' && Array.isArray(value.coordinates) ? value.coordinates : []
  const { latitude = north, longitude = east } = value
  return isWithin(latitude, 90) && isWithin(longitude, 180) ? { latitude, longitude } : undefined
}

/** Whether a value is a number of degrees from `-most` to `most`. */
export const isWithin = (value: unknown, most: number): value is number =>
  typeof value === 'number' && Math.abs(value) <= most

/** Compares texts by the bytes of their UTF-8, as both databases do. */
export const compareTexts = (a: string, b: string): number =>
  a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b))

/** Compares two values of one index. */
export const compareValues = (a: string | number, b: string | number): number =>
  typeof a === 'string' || typeof b === 'string' ? compareTexts(String(a), String(b)) : a - b
