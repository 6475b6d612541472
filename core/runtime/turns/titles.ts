import { type QueryExecutorProvider, sql } from 'kysely'
import { RuntimeError } from '../../errors.ts'

const longestTitle = 200

/** The titles of a user's sessions; sessions without one, and sessions of others, are left out. */
export async function titlesOf(
  db: QueryExecutorProvider,
  did: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql<{ id: string; title: string }>`select id, title from kernel_sessions
    where did = ${did} and title is not null and id in (${sql.join([...ids])})`.execute(db)
  return new Map(rows.map(({ id, title }) => [id, title]))
}

/** The title that a plugin gives a session, on one line. */
export function readTitle(title: unknown): string {
  const line = typeof title === 'string' && title.length <= longestTitle ? titleOf(title) : ''
  if (line !== '') return line
  throw new RuntimeError('INPUT_INVALID', 'That is no title of a session.', {
    hint: `A title is a text of 1 to ${longestTitle} characters.`,
  })
}

/** The title of a session, from the first words that were said in it. */
export function titleOf(message: string): string {
  // PostgreSQL cannot keep U+0000 in a text.
  const line = message.replace(/[\s\0]+/g, ' ').trim()
  if (line.length <= 60) return line
  const cut = line.slice(0, 60).toWellFormed()
  const space = cut.lastIndexOf(' ')
  return `${(space > 30 ? cut.slice(0, space) : cut).trimEnd()}…`
}

/** The title that a user gives a session: all of it, on one line, and nothing in it turns the line around. */
export function ownTitle(title: string): string {
  const line = title
    .replace(/[\u202a-\u202e\u2066-\u2069]/gu, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  if (line !== '' && line.length <= longestTitle && line.isWellFormed()) return line
  const message = `has 1 to ${longestTitle} characters that can be seen`
  throw new RuntimeError('INVALID_INPUT', 'That is no title of a conversation.', {
    hint: `A title ${message}; null stands for the first words.`,
    details: [{ path: 'title', message }],
  })
}
