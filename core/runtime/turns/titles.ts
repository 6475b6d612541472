import { type QueryExecutorProvider, sql } from 'kysely'

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
