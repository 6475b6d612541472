import { describeVariables, type EnvSource, type Variable } from '../../manifest/env.ts'
import { kernelEnv } from '../../manifest/kernel-env.ts'
import { requirementsOf } from '../../manifest/load-order.ts'
import type { RouteAuth } from '../../plugin.ts'
import { toolNames } from './plan.ts'
import type { PluginRecord, PluginState } from '../base/plugin-record.ts'
import { runtimeVersion } from '../base/version.ts'

/** What boot made of every plugin: data for `npm run inspect`, pages and tests. */
export interface BootReport {
  readonly runtime: string
  readonly node: string
  readonly plugins: readonly PluginReport[]
  readonly env: readonly (Variable & { readonly set: boolean })[]
}

/** What boot made of one plugin. */
export interface PluginReport {
  readonly name: string
  readonly version?: string
  readonly summary: string
  readonly visibility: string
  readonly state: PluginState
  /** Whether the plugin is there when no feature says so: `on`, `off` or `development`. */
  readonly defaultState: string
  readonly since: string
  readonly reason?: string
  readonly missing: readonly string[]
  readonly requires: readonly string[]
  readonly tools: readonly string[]
  readonly routes: readonly { readonly key: string; readonly auth: RouteAuth }[]
  readonly stateKeys: readonly string[]
  readonly web: readonly string[]
}

/** The report of a boot, as far as it is known now. */
export function reportOf(records: readonly PluginRecord[], source: EnvSource): BootReport {
  const variables = [
    ...describeVariables('kernel', kernelEnv),
    ...records.flatMap((record) => describeVariables(record.name, record.definition.env ?? {})),
  ]
  return {
    runtime: runtimeVersion,
    node: process.versions.node,
    plugins: records.map(pluginReport),
    env: variables.map((variable) => ({ ...variable, set: Boolean(source[variable.name]) })),
  }
}

function pluginReport(record: PluginRecord): PluginReport {
  const { name, definition, visibility, state, reason, missing } = record
  return {
    name,
    version: definition.version,
    summary: definition.summary,
    visibility,
    state,
    defaultState: definition.defaultState ?? 'on',
    since: record.since.toISOString(),
    reason,
    missing,
    requires: requirementsOf({ name, definition }).map((plugin) => plugin?.name ?? '?'),
    tools: toolNames(record),
    routes: Object.entries(record.routes).map(([key, route]) => ({
      key,
      auth: route.auth ?? 'ucan',
    })),
    stateKeys: Object.keys(definition.state ?? {}),
    web: Object.keys(record.web),
  }
}
