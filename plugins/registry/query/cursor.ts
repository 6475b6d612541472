import { createHash } from 'node:crypto'
import { z } from 'zod'
import { invalid } from '../refusal.ts'
import type { Position } from './walking.ts'

const shape = z.tuple([
  z.string(),
  z.union([z.string().max(1024), z.number()]),
  z.number().int().min(0),
  z.number().int().min(0).optional(),
])

/** What a cursor remembers of its query: it goes on with no other. */
export const printOf = (query: object): string =>
  createHash('sha256').update(JSON.stringify(query)).digest('base64url').slice(0, 16)

/** Where a query goes on: the position, and along which of the ways that its plan has. */
export interface GoingOn extends Position {
  readonly way: number
}

/** Writes where a query goes on. */
export const writePosition = (print: string, { value, ordinal, way }: GoingOn): string =>
  Buffer.from(JSON.stringify([print, value, ordinal, ...(way > 0 ? [way] : [])])).toString(
    'base64url',
  )

/** Reads where a query goes on; refuses the cursor of another query. */
export function readPosition(cursor: string, print: string): GoingOn {
  let parsed: unknown
  try {
    parsed = JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch {
    parsed = undefined
  }
  const read = shape.safeParse(parsed)
  if (!read.success || read.data[1] === undefined)
    throw invalid('cursor', 'give the nextCursor of this query')
  const [of, value, ordinal, way = 0] = read.data
  const isStorable = typeof value === 'number' || (value.isWellFormed() && !value.includes('\0'))
  if (of === print && isStorable) return { value, ordinal, way }
  throw invalid('cursor', 'the cursor is of another query', 'Begin again without a cursor.')
}
