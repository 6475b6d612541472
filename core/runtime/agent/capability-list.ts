import { requiredNames } from '../../manifest/load-order.ts'
import { isLoaded } from './turn/capabilities.ts'
import { toolNames } from '../boot/plan.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import type { Tools } from './tools/tools.ts'

/** One plugin as `GET /capabilities` shows it. */
export interface ListedCapability {
  readonly name: string
  readonly summary: string
  readonly visibility: string
  readonly state: string
  /** Whether the plugin is there when no feature says so: `on`, `off` or `development`. */
  readonly defaultState: string
  /** Why it is not there, with the remedy. */
  readonly reason?: string
  /** Whether its tools are within reach of the session that was asked about. */
  readonly loaded?: boolean
  readonly stability: string
  readonly category?: string
  readonly requires: readonly string[]
  /** Required variables that are unset. */
  readonly missing?: readonly string[]
  readonly whenToUse: readonly string[]
  /** Its share of the system prompt. */
  readonly promptBytes: number
  readonly tools: readonly {
    readonly name: string
    readonly description: string
    readonly effect: 'read' | 'write'
    readonly parameters: Readonly<Record<string, unknown>>
  }[]
  readonly routes: readonly {
    readonly route: string
    readonly auth: string
    readonly summary?: string
  }[]
}

/** Every plugin of the app, those that are not loaded and why included. */
export function listCapabilities(
  records: readonly PluginRecord[],
  tools: Tools,
  loaded: ReadonlySet<string>,
  bytesOf: ReadonlyMap<string, number>,
): ListedCapability[] {
  return records.map((record): ListedCapability => {
    const { name, definition, visibility, state, reason, missing, routes } = record
    const { summary, defaultState = 'on', stability = 'stable' } = definition
    const { category, whenToUse = [] } = definition
    const entries = toolNames(record).flatMap((tool) => tools.entry(tool) ?? [])
    return {
      name,
      summary,
      visibility,
      state,
      defaultState,
      reason,
      loaded: isActive(record) && isLoaded(record, loaded),
      stability,
      category,
      requires: requiredNames(definition),
      missing: missing.length > 0 ? missing : undefined,
      whenToUse,
      promptBytes: bytesOf.get(name) ?? 0,
      tools: entries.map(({ spec, effect }) => ({ ...spec, effect })),
      routes: Object.entries(routes).map(([route, { auth = 'ucan', summary }]) => ({
        route,
        auth,
        summary,
      })),
    }
  })
}
