import { createHash } from 'node:crypto'
import { z } from 'zod'
import { invalid } from '../refusal.ts'
import type { Position } from './walking.ts'

const shape = z.tuple([
  z.string(),
  z.union([z.string().max(1024), z.number()]),
  z.number().int().min(0),
])

/** What a cursor remembers of its query: it goes on with no other. */
export const printOf = (query: object): string =>
  createHash('sha256').update(JSON.stringify(query)).digest('base64url').slice(0, 16)

/** Writes where a query goes on. */
export const writePosition = (print: string, { value, ordinal }: Position): string =>
  Buffer.from(JSON.stringify([print, value, ordinal])).toString('base64url')

/** Reads where a query goes on; refuses the cursor of another query. */
export function readPosition(cursor: string, print: string): Position {
  let parsed: unknown
  try {
    parsed = JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch {
    parsed = undefined
  }
  const read = shape.safeParse(parsed)
  if (!read.success || read.data[1] === undefined)
    throw invalid('cursor', 'give the nextCursor of this query')
  const [of, value, ordinal] = read.data
  const isStorable = typeof value === 'number' || (value.isWellFormed() && !value.includes('\0'))
  if (of === print && isStorable) return { value, ordinal }
  throw invalid('cursor', 'the cursor is of another query', 'Begin again without a cursor.')
}
