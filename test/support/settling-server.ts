import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import type { RunMoment } from '../../core/runtime/turns/carry/carried-run.ts'
import { dieAt } from './die-at.ts'
import { countedEngine, endGates, makeEndTable } from './ends.ts'
import { startServer } from './server.ts'

/** What the server is told on its command line. */
export interface SettlingServerSettings {
  readonly databaseUrl?: string
  readonly dataDir?: string
  readonly leaseMs: number
  /** Where the process ends itself. */
  readonly dies?: RunMoment
}

const settings = JSON.parse(process.argv[2] ?? '{}') as SettlingServerSettings
const { databaseUrl, dataDir, leaseMs, dies } = settings
const { url, store } = await startServer({
  engine: countedEngine,
  databaseUrl,
  dataDir: dataDir ? await openDataDir(dataDir) : undefined,
  leaseMs,
  gates: endGates(),
  at: dies && dieAt(dies),
})
await makeEndTable(store)
console.log(url)
