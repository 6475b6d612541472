import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { plannedDatabase } from './database.ts'
import { type BusProcess, startBus } from './bus-process.ts'
import { describeWith, urlOf } from './services.ts'

/** A database of a suite's own, and the bus beside it. */
export interface OnBus {
  readonly databaseUrl: string
  /** Starts a bus of a test's own. */
  start(): Promise<BusProcess>
}

/** Runs a suite on PostgreSQL beside a bus, where there are both. */
export async function onBus(
  kind: 'nats' | 'redis',
  name: string,
  suite: (on: OnBus) => void,
): Promise<void> {
  const postgres = await urlOf('postgres')
  if (postgres === undefined) return describeWith('postgres', name, () => {}).then(() => {})
  await describeWith(kind === 'redis' ? 'redisServer' : kind, name, () => {
    const database = plannedDatabase(postgres)
    beforeAll(() => database.create())
    afterAll(() => database.drop())
    suite({ databaseUrl: database.url, start: () => startBus(kind, onTestFinished) })
  })
}
