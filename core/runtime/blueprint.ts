import type { DatabaseSync } from 'node:sqlite'
import type { Logger } from 'pino'
import type { EnvSource } from '../manifest/env.ts'
import type { KernelEnv } from '../manifest/kernel-env.ts'
import type { Fetch, HttpLayer } from '../plugin.ts'
import type { Instructions } from '../plugin/context.ts'
import type { OpenLog } from './base/log.ts'
import type { PluginRecord } from './base/plugin-record.ts'
import type { JobPlans } from './jobs/plan.ts'
import type { ChosenModels } from './model/choose.ts'
import type { ChosenEmbedder } from './model/embed/chosen-embedder.ts'
import type { DataDir } from './store/data-dir.ts'
import type { Rotation } from './variables/rotation.ts'
import type { TestClock } from './boot/test-clock.ts'

/** Everything that the app decides before it opens anything. */
export interface Blueprint {
  readonly config: KernelEnv
  readonly records: readonly PluginRecord[]
  /** The parsed environment slice of each active plugin. */
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
  /** The schedules of jobs. */
  readonly plans: JobPlans
  /** The models that answer. */
  readonly chosen: ChosenModels
  /** What makes vectors of texts. */
  readonly embedder: ChosenEmbedder
  /** Who the agent is and how it speaks. */
  readonly instructions: Instructions | undefined
  /** The environment, with what was generated for authors. */
  readonly source: EnvSource
  /** Takes over what files of variables say anew. */
  readonly rotation: Rotation
  /** The values that the log masks. */
  readonly secrets: readonly string[]
  /** What plugins reach the network through. */
  readonly fetch: Fetch
  /** Layers of the app itself around every request, outside of those of plugins. */
  readonly http: readonly HttpLayer[]
  readonly log: Logger
  /** Writes lines of JSON into the log that were made elsewhere, many at once. */
  readonly writeLines: OpenLog['writeLines']
  /** Without a directory the app writes no file. */
  readonly dataDir: DataDir | undefined
  /** The clock of a test, in place of the real time. */
  readonly clock: TestClock | undefined
  /** An open database in memory, which outlives the app. */
  readonly memory?: DatabaseSync
  /** True: for a command beside the servers, which carries none of their runs. */
  readonly isAside?: boolean
}
