/** A part of a list, with the cursor to the next part if there is one. */
export interface Page<T> {
  readonly items: readonly T[]
  readonly nextCursor?: string
}

/** The greatest number of a version: PostgreSQL compares no greater one with the columns that hold versions. */
export const greatestVersion = 2 ** 31 - 1

/** Writes a cursor, which holds the number after which the list goes on. */
export const writeCursor = (number: number): string =>
  Buffer.from(`after:${number}`).toString('base64url')

/** The number in a cursor; undefined when `writeCursor` did not write the cursor. */
export function readCursor(cursor: string): number | undefined {
  const [, number] = /^after:(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  return number === undefined ? undefined : Number(number)
}
