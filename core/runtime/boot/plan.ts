import { RuntimeError } from '../../errors.ts'
import { checkVariables, type EnvSource, parseEnv, unsaidEnvironment } from '../../manifest/env.ts'
import { readFeatures, type Features } from '../../manifest/features.ts'
import { kernelEnv, type KernelEnv } from '../../manifest/kernel-env.ts'
import { loadOrder } from '../../manifest/load-order.ts'
import { checkManifest, checkNames, readable } from '../../manifest/manifest.ts'
import { select } from '../../manifest/select.ts'
import { meant } from '../../manifest/did-you-mean.ts'
import type { AnyPlugin } from '../../plugin.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import { refusalOf } from './refusal.ts'
import { checkToldBy } from '../told/told.ts'
import { checkMounts, checkRoutes, type DeclaredRoute } from '../http/routes/routes.ts'
import { settleLimits } from '../http/routes/settle-limits.ts'

/** What boot will do, decided before anything of a plugin runs. */
export interface Plan {
  readonly config: KernelEnv
  readonly records: readonly PluginRecord[]
  /** The parsed environment slice of each active plugin. */
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
  readonly faults: readonly RuntimeError[]
  /** Variables that are set and look like a misspelling of a known one. */
  readonly suspects: readonly string[]
}

/** What a plan is made from. */
export interface PlanInput {
  readonly plugins: readonly AnyPlugin[]
  /** Plugins that the package adds, and that the app has not asked for. */
  readonly added?: readonly AnyPlugin[]
  /** The `features` option of the app. */
  readonly features: Features
  readonly source: EnvSource
  /** The keys of the kernel's own routes, which no plugin may claim. */
  readonly kernelRoutes: readonly string[]
}

/** Reads manifests, features and environment, and collects every fault instead of stopping at one. */
export function planBoot(input: PlanInput): Plan {
  const { added = [], features: option, source, kernelRoutes } = input
  const plugins = [...input.plugins, ...added]
  const kernel = parseEnv('the kernel', kernelEnv, source)
  const unsaid = unsaidEnvironment(source, source.HOST || undefined)
  const manifestFaults = plugins.flatMap(checkManifest)
  const sound = plugins.filter((plugin) => plugin?.definition).map(readable)
  const names = sound.map((plugin) => plugin.name)
  const { features, faults: featureFaults } = readFeatures(option, source.FEATURES, names)
  const { order, faults: orderFaults } = loadOrder(sound)
  const { selections, faults: envFaults } = select(order, features, source)

  const envOf = new Map<string, Record<string, unknown>>()
  const limitFaults: RuntimeError[] = []
  const now = new Date()
  const records = selections.map((selection): PluginRecord => {
    const { name, definition } = selection.plugin
    const { tools, routes, web, runs, models } = definition
    if (selection.state === 'active') envOf.set(name, selection.env)
    const settled = settleLimits(name, typeof routes === 'object' ? routes : {}, envOf.get(name))
    limitFaults.push(...settled.faults)
    return {
      name,
      definition,
      visibility: definition.visibility ?? 'on-demand',
      state: selection.state === 'active' ? 'pending' : selection.state,
      reason: selection.state === 'active' ? undefined : selection.reason,
      since: now,
      isForced: features[name] === true,
      missing: selection.state === 'active' ? [] : selection.missing,
      tools: typeof tools === 'object' ? tools : {},
      routes: settled.routes,
      web: typeof web === 'object' ? web : {},
      runs: typeof runs === 'object' ? runs : undefined,
      models: typeof models === 'object' ? models : undefined,
      isAdded: added.includes(selection.plugin),
    }
  })

  const shapes = records
    .filter((record) => record.state !== 'disabled')
    .map((record) => [`plugin ${record.name}`, record.definition.env ?? {}] as const)
  return {
    config: kernel.values as KernelEnv, // complete when `faults` is empty; otherwise the boot stops
    records,
    envOf,
    faults: [
      ...kernel.faults,
      ...(unsaid ? [unsaid] : []),
      ...manifestFaults,
      ...checkNames(sound),
      ...featureFaults,
      ...orderFaults,
      ...checkVariables([['the kernel', kernelEnv], ...shapes]),
      ...envFaults,
      ...checkToolNames(records),
      ...checkStateKeys(records),
      ...checkSchemes(records),
      ...limitFaults,
      ...checkToldBy(records),
      ...checkRoutes([...kernelRoutes.map(kernelClaim), ...declaredRoutes(records)]),
      ...checkMounts(mountsOf(records)),
    ],
    suspects: misspelt(source, [
      ...Object.keys(kernelEnv),
      ...shapes.flatMap(([, shape]) => Object.keys(shape)),
    ]),
  }
}

/** Stands for a route of the kernel, which is made later than the plan. */
const kernelClaim = (key: string): DeclaredRoute => ({
  key,
  owner: 'the kernel',
  route: { run: () => undefined },
})

/**
 * Faults of the tools, routes and web modules that setups made, and that no manifest lists: the plan has checked all
 * others, so an app whose plugins are all declared is not checked again.
 */
export function checkMade(
  records: readonly PluginRecord[],
  routes: readonly DeclaredRoute[],
): RuntimeError[] {
  const active = records.filter(isActive)
  const isMade = (section: 'tools' | 'routes' | 'web') =>
    active.some(({ definition }) => typeof definition[section] === 'function')
  return [
    ...(isMade('tools') ? checkToolNames(active) : []),
    ...(isMade('routes') ? checkRoutes(routes) : []),
    ...(isMade('web') ? checkMounts(mountsOf(active)) : []),
    ...checkToldBy(active),
  ]
}

/** The routes of active plugins, as far as they are known. */
const declaredRoutes = (records: readonly PluginRecord[]) =>
  records
    .filter(isActive)
    .flatMap(({ name, routes }) =>
      Object.entries(routes).map(([key, route]) => ({ key, owner: name, route })),
    )

/** The web modules of active plugins, as far as they are known. */
export const mountsOf = (records: readonly PluginRecord[]) =>
  records.filter(isActive).flatMap((record) =>
    Object.entries(record.web).map(([mount, module]) => ({
      mount,
      owner: record.name,
      ...(typeof module === 'object' ? module : { handler: module }),
      refusal: () => refusalOf(record),
    })),
  )

/** How active plugins tell errors at their addresses. */
export const errorWordsOf = (records: readonly PluginRecord[]) =>
  records
    .filter(isActive)
    .flatMap(({ definition }) =>
      Object.entries(definition.errors ?? {}).map(([mount, render]) => ({ mount, render })),
    )

const kernelTools = ['list_capabilities', 'load_capability', 'read_result', 'return_result']

/** Two plugins that offer one tool name, sub-agents included: a model tells tools apart by name alone. */
function checkToolNames(records: readonly PluginRecord[]): RuntimeError[] {
  return conflicts(
    [
      ...kernelTools.map((tool) => ['the kernel', tool] as const),
      ...records
        .filter(isActive)
        .flatMap((record) => toolNames(record).map((tool) => [record.name, tool] as const)),
    ],
    (first, second, tool) =>
      new RuntimeError(
        'TOOL_CONFLICT',
        `Both ${first} and ${second} offer a tool called "${tool}".`,
        {
          hint: 'Rename one; a prefix with the plugin’s name keeps them apart.',
        },
      ),
  )
}

/** The tools that a plugin offers to the agent, its sub-agents included. */
export const toolNames = ({ tools, definition }: PluginRecord): string[] => [
  ...Object.keys(tools),
  ...Object.keys(definition.subAgents ?? {}).map((name) => `call_${name}`),
]

/** Two plugins that bring attachments of one scheme. */
function checkSchemes(records: readonly PluginRecord[]): RuntimeError[] {
  return conflicts(
    records
      .filter(isActive)
      .flatMap(({ name, definition }) =>
        Object.keys(definition.attachments ?? {}).map((scheme) => [name, scheme] as const),
      ),
    (first, second, scheme) =>
      new RuntimeError(
        'MANIFEST_INVALID',
        `Both ${first} and ${second} bring attachments of "${scheme}".`,
        { hint: 'Switch one of them off in FEATURES.' },
      ),
  )
}

function checkStateKeys(records: readonly PluginRecord[]): RuntimeError[] {
  return conflicts(
    records
      .filter(isActive)
      .flatMap((record) =>
        Object.keys(record.definition.state ?? {}).map((key) => [record.name, key] as const),
      ),
    (first, second, key) =>
      new RuntimeError(
        'STATE_CONFLICT',
        `Both ${first} and ${second} declare the state key "${key}".`,
        {
          hint: 'Rename one, or let one plugin require the other and read its state.',
        },
      ),
  )
}

function conflicts(
  claims: readonly (readonly [owner: string, name: string])[],
  fault: (first: string, second: string, name: string) => RuntimeError,
): RuntimeError[] {
  const ownerOf = new Map<string, string>()
  const faults: RuntimeError[] = []
  for (const [owner, name] of claims) {
    const first = ownerOf.get(name)
    if (first === undefined) ownerOf.set(name, owner)
    else faults.push(fault(first, owner, name))
  }
  return faults
}

/** A set variable that nobody declares, close to one that is declared and unset. */
function misspelt(source: EnvSource, declared: readonly string[]): string[] {
  const known = new Set(declared)
  const unset = declared.filter((name) => !source[name] && name.length >= 8)
  return Object.keys(source)
    .filter(
      (name) =>
        source[name] && name.length >= 8 && !known.has(name) && /^[A-Z][A-Z0-9_]+$/.test(name),
    )
    .flatMap((name) => {
      const close = unset.filter(
        (candidate) =>
          Math.abs(candidate.length - name.length) <= 2 && sharesAffix(candidate, name),
      )
      const hint = meant(name, close)
      return hint ? [`${name} is set, but nothing reads it. ${hint}`] : []
    })
}

/** Misspellings keep one end of the word; this keeps unrelated variables of the shell out. */
const sharesAffix = (a: string, b: string): boolean =>
  a.slice(0, 4) === b.slice(0, 4) || a.slice(-4) === b.slice(-4)
