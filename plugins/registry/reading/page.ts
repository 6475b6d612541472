/** A part of a list, and the cursor to what follows. */
export interface Page<T> {
  readonly items: readonly T[]
  readonly nextCursor?: string
}

/** A cursor says behind which number the list goes on. */
export const writeCursor = (number: number): string =>
  Buffer.from(`after:${number}`).toString('base64url')

/** The number in a cursor; undefined when it is none of ours. */
export function readCursor(cursor: string): number | undefined {
  const [, number] = /^after:(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  return number === undefined ? undefined : Number(number)
}
