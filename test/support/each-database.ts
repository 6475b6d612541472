import { afterAll, beforeAll, describe } from 'vitest'
import { freshDatabase } from './database.ts'
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

export async function onPostgres(name: string, suite: (where: Where) => void): Promise<void> {
  await describeWith('postgres', name, (url) => {
    const where: { databaseUrl?: string } = {}
    let drop = async () => {}
    beforeAll(async () => {
      const database = await freshDatabase(url)
      where.databaseUrl = database.url
      drop = database.drop
    })
    afterAll(() => drop())
    suite(where)
  })
}
