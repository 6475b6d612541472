import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { plannedDatabase } from './database.ts'
import { startNats } from './nats.ts'
import { describeWith, urlOf } from './services.ts'

/** A database of a suite's own, and the bus beside it. */
export interface OnBus {
  readonly databaseUrl: string
  /** Where the bus of a test answers; NATS is a server of the test's own. */
  start(): Promise<string>
}

/** Runs a suite on PostgreSQL beside a bus, where there are both. */
export async function onBus(
  kind: 'nats' | 'redis',
  name: string,
  suite: (on: OnBus) => void,
): Promise<void> {
  const postgres = await urlOf('postgres')
  if (postgres === undefined) return describeWith('postgres', name, () => {}).then(() => {})
  await describeWith(kind, name, (url) => {
    const database = plannedDatabase(postgres)
    beforeAll(() => database.create())
    afterAll(() => database.drop())
    const start = async () => (kind === 'redis' ? url : (await startNats(onTestFinished)).url)
    suite({ databaseUrl: database.url, start })
  })
}
