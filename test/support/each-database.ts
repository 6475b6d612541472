import { afterAll, beforeAll, describe } from 'vitest'
import { plannedDatabase } from './database.ts'
import { describeWith } from './services.ts'

/** Where the replicas of a test keep what they know; on PostgreSQL all of a suite share it. */
export interface Where {
  readonly databaseUrl?: string
}

/** Runs a suite on SQLite in the process, and on PostgreSQL where there is one. */
export async function onEachDatabase(name: string, suite: (where: Where) => void): Promise<void> {
  describe(`${name}, on SQLite`, () => suite({}))
  await onPostgres(`${name}, on PostgreSQL`, suite)
}

/** Runs a suite on PostgreSQL where there is one. */
export async function onPostgres(name: string, suite: (where: Where) => void): Promise<void> {
  await describeWith('postgres', name, (url) => {
    // The address is known from the start: a suite may read its parts before the first hook has run.
    const database = plannedDatabase(url)
    beforeAll(() => database.create())
    afterAll(() => database.drop())
    suite({ databaseUrl: database.url })
  })
}
