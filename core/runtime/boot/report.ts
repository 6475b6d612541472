import { describeVariables, type EnvSource, type Variable } from '../../manifest/env.ts'
import { kernelEnv } from '../../manifest/kernel-env.ts'
import { requirementsOf, usedNames } from '../../manifest/load-order.ts'
import type { AnyJob, RouteAuth } from '../../plugin.ts'
import { isScheduled } from '../../manifest/jobs.ts'
import { toolNames } from './plan.ts'
import type { PluginRecord, PluginState } from '../base/plugin-record.ts'
import { runtimeVersion } from '../base/version.ts'

/** What boot made of every plugin: data for `npm run inspect`, pages and tests. */
export interface BootReport {
  readonly runtime: string
  readonly node: string
  readonly plugins: readonly PluginReport[]
  /** A line for each model that is offered. */
  readonly models: readonly string[]
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
  /** The plugins that this one uses where the app has them. */
  readonly uses: readonly string[]
  readonly tools: readonly string[]
  readonly routes: readonly { readonly key: string; readonly auth: RouteAuth }[]
  readonly stateKeys: readonly string[]
  readonly web: readonly string[]
  readonly jobs: readonly JobReport[]
}

/** A job of a plugin, and when it runs. */
export interface JobReport {
  readonly name: string
  /** `every 15m`, `cron 0 9 * * * (Europe/Berlin)`, or `later`. */
  readonly when: string
  /** The next three times of a schedule, counted from now: an interval keeps the phase of the first boot. */
  readonly next: readonly string[]
}

/** Finds the times of a schedule. */
interface Times {
  after(now: number, phase: number): number | undefined
}

const timesShown = 3

/** The report of a boot, as far as it is known now. */
export function reportOf(
  records: readonly PluginRecord[],
  source: EnvSource,
  plans: ReadonlyMap<string, Times>,
  models: readonly string[],
): BootReport {
  const variables = [
    ...describeVariables('kernel', kernelEnv),
    ...records.flatMap((record) => describeVariables(record.name, record.definition.env ?? {})),
  ]
  return {
    runtime: runtimeVersion,
    node: process.versions.node,
    plugins: records.filter(({ isAdded }) => !isAdded).map((record) => pluginReport(record, plans)),
    models,
    env: variables.map((variable) => ({ ...variable, set: Boolean(source[variable.name]) })),
  }
}

function pluginReport(record: PluginRecord, plans: ReadonlyMap<string, Times>): PluginReport {
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
    uses: usedNames(definition),
    tools: toolNames(record),
    routes: Object.entries(record.routes).map(([key, route]) => ({
      key,
      auth: route.auth ?? 'ucan',
    })),
    stateKeys: Object.keys(definition.state ?? {}),
    web: Object.keys(record.web),
    jobs: Object.entries(definition.jobs ?? {}).map(([job, declared]) => ({
      name: job,
      when: whenOf(declared),
      next: nextTimes(plans.get(`${name}.${job}`)),
    })),
  }
}

function whenOf(job: AnyJob): string {
  if (!isScheduled(job)) return 'later'
  const { every, cron, timezone = 'UTC' } = job
  if (cron !== undefined) return `cron ${cron} (${timezone})`
  return `every ${typeof every === 'number' ? `${every} ms` : every}`
}

function nextTimes(times: Times | undefined): string[] {
  const began = Date.now()
  const next: string[] = []
  for (let at: number | undefined = began; times && next.length < timesShown;) {
    at = times.after(at, began)
    if (at === undefined) break
    next.push(new Date(at).toISOString())
  }
  return next
}
