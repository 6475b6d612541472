import type {
  AnyDefinition,
  AnyRoute,
  AnyTool,
  Database,
  Fetch,
  Log,
  WebModule,
} from '../../plugin.ts'

/** Where a plugin stands after the boot. */
export type PluginState = 'loaded' | 'available' | 'excluded' | 'disabled' | 'pending' | 'failed'

/** One plugin of a running app: what it declared, and what boot made of it. */
export interface PluginRecord {
  readonly name: string
  readonly definition: AnyDefinition
  readonly visibility: 'always' | 'on-demand' | 'silent'
  state: PluginState
  /** Why it is excluded, disabled, pending or failed, in a sentence with the remedy. */
  reason?: string
  /** When the present state began. */
  since: Date
  /** Whether the features demand it: then nothing leaves it out quietly. */
  readonly isForced: boolean
  /** Required variables that are unset. */
  missing: readonly string[]
  /** The sentence of a health check that failed last. */
  complaint?: string
  /** What handlers reach, shared by every call; absent until setup has finished. */
  base?: PluginBase
  tools: Readonly<Record<string, AnyTool>>
  routes: Readonly<Record<string, AnyRoute>>
  web: Readonly<Record<string, WebModule>>
}

/** The part of every handler's context that never changes after boot. */
export interface PluginBase {
  readonly env: Readonly<Record<string, unknown>>
  readonly log: Log
  readonly self: unknown
  readonly plugins: Readonly<Record<string, unknown>>
  readonly fetch: Fetch
  readonly db: Database
}

/** Whether the plugin takes part in this app at all. */
export const isActive = (record: PluginRecord): boolean =>
  record.state !== 'disabled' && record.state !== 'excluded'

/** The state a plugin has once nothing is pending. */
export const settledState = (record: PluginRecord): PluginState =>
  record.visibility === 'on-demand' ? 'available' : 'loaded'

/** One plain line for the boot report: `notes available (on-demand)`. */
export function stateLine(record: PluginRecord): string {
  const { name, state, visibility, reason } = record
  if (state === 'loaded' || state === 'available') return `${name} ${state} (${visibility})`
  return `${name} ${state}${reason ? `: ${reason}` : ''}`
}
