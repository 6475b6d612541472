import type { Logger } from 'pino'
import type { EnvSource } from '../manifest/env.ts'
import type { KernelEnv } from '../manifest/kernel-env.ts'
import type { Fetch } from '../plugin.ts'
import type { PluginRecord } from './base/plugin-record.ts'
import type { Models } from './model/choose.ts'
import type { DataDir } from './store/data-dir.ts'

/** Everything that is decided before anything is opened. */
export interface Blueprint {
  readonly config: KernelEnv
  readonly records: readonly PluginRecord[]
  /** The parsed environment slice of each active plugin. */
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
  readonly models: Models
  /** The environment, with what was generated for authors. */
  readonly source: EnvSource
  /** The values that the log masks. */
  readonly secrets: readonly string[]
  /** What plugins reach the network through. */
  readonly fetch: Fetch
  readonly log: Logger
  /** Without it nothing is written. */
  readonly dataDir: DataDir | undefined
}
