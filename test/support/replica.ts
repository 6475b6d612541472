import { onTestFinished } from 'vitest'
import { type Replica, type ReplicaOptions, startServer } from './server.ts'

export * from './server.ts'

/** A server for the length of a test. */
export async function replica(options: ReplicaOptions): Promise<Replica> {
  const started = await startServer(options)
  onTestFinished(() => started.close())
  return started
}
