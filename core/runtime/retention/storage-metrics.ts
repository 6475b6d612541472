import type { Log } from '../../plugin.ts'
import type { Registry } from '../telemetry/registry.ts'
import { type MeasuredStore, readTableBytes } from './storage.ts'

/** How old these figures may be: SQLite goes through every page of its file for them. */
const freshMs = 3_600_000

/** Adds how much room each table takes to the metrics. Nobody waits for it: a reading that finds it old begins to ask anew. */
export function measureStorage(registry: Registry, store: MeasuredStore, log: Log): void {
  const gauge = registry.make({
    kind: 'gauge',
    name: 'oracle_storage_bytes',
    help: 'Bytes of each table with its indexes, read once an hour.',
    labels: ['table'],
  })
  let askedAt = -Infinity
  registry.beforeReading(() => {
    if (performance.now() - askedAt < freshMs) return
    askedAt = performance.now()
    void readTableBytes(store).then(
      (tables) => {
        gauge.clear()
        for (const [table, bytes] of tables) gauge.set(bytes, { table })
      },
      (err: unknown) => log.warn({ err }, 'The sizes of the tables could not be read'),
    )
  })
}
