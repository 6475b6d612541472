import type { Compilable } from 'kysely'
import { prepared } from '#core'
import type { RegistryDatabase, Tables } from './tables.ts'

const sizes = [64, 16, 4, 1]

/**
 * Makes a function that inserts rows, up to 64 in a statement; `ignoresPresent` leaves rows as they are whose key is there.
 * Kysely compiles each of the statements once.
 */
export function bulkInsert<T extends keyof Tables>(
  db: RegistryDatabase,
  table: T,
  columns: readonly (keyof Tables[T] & string)[],
  ignoresPresent = false,
) {
  const width = columns.length
  const statements = sizes.map((size) =>
    prepared(db, (slots: unknown[]) => {
      const insert = db.insertInto(table).values(
        Array.from({ length: size }, (_, row) =>
          Object.fromEntries(columns.map((column, at) => [column, slots[row * width + at]])),
        ) as never, // Kysely cannot follow columns that are named by a list
      )
      return ignoresPresent ? insert.onConflict((conflict) => conflict.doNothing()) : insert
    }),
  )
  return async (rows: readonly Tables[T][], on: RegistryDatabase = db): Promise<void> => {
    for (let from = 0; from < rows.length;) {
      const step = sizes.findIndex((size) => size <= rows.length - from)
      const until = from + sizes[step]!
      const values: unknown[] = []
      for (; from < until; from++) for (const column of columns) values.push(rows[from]![column])
      await statements[step]!(values, on)
    }
  }
}

/** How many values one statement of `overList` takes. */
export const mostListed = 128
const listed = [1, 16, mostListed]

/**
 * Runs a query over a list of any length, in a few compiled forms whose unused places repeat the first value. `more` are
 * values beside the list; `sizes` says how long the forms are, the longest last.
 */
export function overList<R, V = string, M extends object = object>(
  db: RegistryDatabase,
  build: (values: V[], more: M) => Compilable<R>,
  sizes: readonly number[] = listed,
) {
  const statements = sizes.map((size) => ({
    size,
    run: prepared(db, (slots: V[] & M) =>
      build(
        Array.from({ length: size }, (_, at) => slots[at]!),
        slots,
      ),
    ),
  }))
  const largest = statements.at(-1)!
  return async (
    values: readonly V[],
    on: RegistryDatabase = db,
    more: M = Object.create(null),
  ): Promise<R[]> => {
    const rows: R[] = []
    for (let from = 0; from < values.length;) {
      const left = values.length - from
      const { size, run } = statements.find(({ size }) => size >= left) ?? largest
      const places = Array.from({ length: size }, (_, at) => values[from + at] ?? values[from]!)
      const { rows: found } = await run(Object.assign(places, more), on)
      for (const row of found) rows.push(row)
      from += size
    }
    return rows
  }
}
