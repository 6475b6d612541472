import { createHash } from 'node:crypto'
import { type SelectQueryBuilder, sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { RunTables } from '../journal/tables.ts'

/** Which of a user's sessions are listed. */
export interface ListWish {
  readonly limit: number
  readonly offset?: number
  /** What an earlier page ended with. */
  readonly cursor?: string
  /** The sessions that their user has put away, in the place of all others. */
  readonly archived?: boolean
  /** `newest`: of the branches of one conversation, the one that was used last. */
  readonly branches?: 'newest'
}

/** What of the sessions a wish is about, wherever its page begins. */
export function wished<O>(
  mine: SelectQueryBuilder<RunTables, 'kernel_sessions', O>,
  { archived = false, branches }: ListWish,
): SelectQueryBuilder<RunTables, 'kernel_sessions', O> {
  const kept = mine.where('archived', '=', archived ? 1 : 0).where('ephemeral', '=', 0)
  if (branches === undefined) return kept
  return kept.where(
    sql<boolean>`not exists (select 1 from kernel_sessions as other
      where other.did = kernel_sessions.did and other.archived = kernel_sessions.archived
      and other.id <> kernel_sessions.id
      and (other.family = coalesce(kernel_sessions.family, kernel_sessions.id)
        or other.id = kernel_sessions.family)
      and (other.updated_at > kernel_sessions.updated_at
        or (other.updated_at = kernel_sessions.updated_at and other.id > kernel_sessions.id)))`,
  )
}

/** The place in the list at which a page ends. */
interface Place {
  readonly pinned: number
  readonly updated: number
  readonly id: string
}

/** The name of a wish in its cursors: those of another wish lead nowhere. */
const nameOf = ({ archived = false, branches }: ListWish): string =>
  createHash('sha256')
    .update(JSON.stringify([archived, branches]))
    .digest('base64url')
    .slice(0, 8)

/** The cursor with which the next page is asked for: the last session of this one. */
export function cursorOf(
  wish: ListWish,
  last: { readonly pinned: number; readonly updated_at: number; readonly id: string } | undefined,
): string | null {
  if (!last) return null
  const place = [nameOf(wish), last.pinned, Number(last.updated_at), last.id]
  return Buffer.from(JSON.stringify(place)).toString('base64url')
}

/** The place that a cursor names. */
export function placeOf(wish: ListWish): Place | undefined {
  const { cursor } = wish
  if (cursor === undefined) return undefined
  try {
    const [name, pinned, updated, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    const isPlace = Number.isSafeInteger(pinned) && Number.isSafeInteger(updated)
    if (name === nameOf(wish) && isPlace && typeof id === 'string') return { pinned, updated, id }
  } catch {
    // What is no JSON is no cursor either.
  }
  throw new RuntimeError('BAD_REQUEST', 'That is not a cursor of this list.', {
    hint: 'Give nextCursor of the page before as it stands, with the same query.',
  })
}
