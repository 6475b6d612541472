import { requiredNames, usedNames } from '../../manifest/load-order.ts'
import { isLoaded } from './turn/capabilities.ts'
import type { ToolSpec } from '../../plugin.ts'
import { toolNames } from '../boot/plan.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import type { Tools } from './tools/tools.ts'

/** One plugin as `GET /capabilities` shows it. */
export interface ListedCapability {
  readonly name: string
  readonly summary: string
  readonly visibility: string
  readonly state: string
  /** Whether the plugin loads when the features of the app do not name it: `on`, `off` or `development`. */
  readonly defaultState: string
  /** Why the plugin did not load, with the remedy. */
  readonly reason?: string
  /** Whether the session that the caller names can call the plugin's tools. */
  readonly loaded?: boolean
  readonly stability: string
  readonly category?: string
  readonly requires: readonly string[]
  /** The plugins that this one uses where the app has them. */
  readonly uses: readonly string[]
  /** The plugin's required variables that are unset. */
  readonly missing?: readonly string[]
  readonly whenToUse: readonly string[]
  /** What a user might say. */
  readonly examples: readonly string[]
  /** How many bytes of the system prompt are the plugin's. */
  readonly promptBytes: number
  /** How many bytes its tools have in every call of a model once it is loaded: names, descriptions, schemas. */
  readonly toolBytes: number
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

/** How many bytes a tool has in a call of a model. */
export const toolBytes = ({ name, description, parameters }: ToolSpec): number =>
  Buffer.byteLength(JSON.stringify({ name, description, parameters }))

/** Describes every plugin of the app. For a plugin that did not load, the entry says why. */
export function listCapabilities(
  records: readonly PluginRecord[],
  tools: Tools,
  loaded: ReadonlySet<string>,
  bytesOf: ReadonlyMap<string, number>,
): ListedCapability[] {
  return records
    .filter(({ isAdded }) => !isAdded)
    .map((record): ListedCapability => {
      const { name, definition, visibility, state, reason, missing, routes } = record
      const { summary, defaultState = 'on', stability = 'stable' } = definition
      const { category, whenToUse = [], examples = [] } = definition
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
        uses: usedNames(definition),
        missing: missing.length > 0 ? missing : undefined,
        whenToUse,
        examples,
        promptBytes: bytesOf.get(name) ?? 0,
        toolBytes: entries.reduce((sum, { spec }) => sum + toolBytes(spec), 0),
        tools: entries.map(({ spec, effect }) => ({ ...spec, effect })),
        routes: Object.entries(routes).map(([route, { auth = 'ucan', summary }]) => ({
          route,
          auth,
          summary,
        })),
      }
    })
}
