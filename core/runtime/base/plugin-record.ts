import type {
  AnyDefinition,
  AnyJobs,
  AnyRoute,
  AnyRunSection,
  AnyTool,
  AskableModel,
  Database,
  ToldFacts,
  Fetch,
  Log,
  Model,
  ModelCall,
  ModelSection,
  OfferedModels,
  CapabilityFacts,
  PluginSessions,
  Rooms,
  Turns,
  WebEntry,
  WebModule,
} from '../../plugin.ts'

import type { Now } from './clock.ts'

/** Where a plugin stands after the boot. */
export type PluginState = 'loaded' | 'available' | 'excluded' | 'disabled' | 'pending' | 'failed'

/** Why a plugin serves nothing: it waits for something, or it has failed. */
export interface Gate {
  readonly isFailed: boolean
  /** What the plugin waits for, or why it failed, in a sentence. */
  readonly why: string
}

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
  /** Whether the features demand the plugin: then the boot stops rather than leave the plugin out. */
  readonly isForced: boolean
  /** Required variables that are unset. */
  missing: readonly string[]
  /** What the plugin's health check says, as long as the check fails. */
  complaint?: string
  /** What the plugin's health check says beside, while the plugin is well. */
  remark?: string
  /** How a function that the plugin gave to `onReady` failed. */
  readyFault?: string
  /** Why the plugin serves nothing although its setup has finished; see `gateOf`. */
  gate?: Gate
  /** What handlers reach, shared by every call; absent until setup has finished. */
  base?: PluginBase
  /** The models for one call of a handler, in place of those of `base`; there as soon as `base` is. */
  modelsWithin?: ModelsWithin
  tools: Readonly<Record<string, AnyTool>>
  routes: Readonly<Record<string, AnyRoute>>
  web: Readonly<Record<string, WebModule | WebEntry>>
  /** What the plugin says to turns; absent where it says nothing, and until a function of `boot` has made it. */
  runs?: AnyRunSection
  /** What the plugin tells strangers; absent where it tells nothing, and until `facts` has been asked. */
  facts?: ToldFacts
  /** The providers of models that the plugin brings. */
  models?: ModelSection<unknown, unknown>
  /** The package has added the plugin, and the app has not asked for it: no list of plugins names it. */
  readonly isAdded: boolean
}

/** One call of a handler, as far as it matters to the models that the handler asks. */
export interface ModelScope {
  /** Fires when nobody waits for the handler any more. It is read when the handler asks. */
  readonly signal?: () => AbortSignal
  /** The model of the turn; without it the default one. */
  readonly model?: Model
  readonly did?: string
  readonly runId?: string
  readonly sessionId?: string
  /** Counts what is asked aside in a turn, whichever plugin asks. */
  readonly asked?: { count: number }
  /** Told of each call of a model, beside whoever is told of all calls of the app. */
  readonly tell?: (call: ModelCall) => void
}

/** The models as one plugin reaches them in one call of a handler. */
export type ModelsWithin = (scope: ModelScope) => {
  readonly models: OfferedModels
  readonly model: AskableModel
}

/** The part of every handler's context that never changes after boot. */
export interface PluginBase {
  readonly env: Readonly<Record<string, unknown>>
  readonly log: Log
  readonly self: unknown
  readonly plugins: Readonly<Record<string, unknown>>
  readonly fetch: Fetch
  readonly db: Database
  readonly jobs: AnyJobs
  readonly turns: Turns
  readonly models: OfferedModels
  /** The default model. */
  readonly model: AskableModel
  readonly rooms: Rooms
  readonly sessions: PluginSessions
  readonly now: Now
}

/** Whether the plugin takes part in this app at all. */
export const isActive = (record: PluginRecord): boolean =>
  record.state !== 'disabled' && record.state !== 'excluded'

/** Whether the plugin serves: its setup has finished, and no pending work gates it. */
export const isOpen = ({ base, gate }: PluginRecord): boolean =>
  base !== undefined && gate === undefined

/** Why a plugin serves nothing; undefined when the plugin serves. */
export function gateOf({ name, base, gate, state, reason }: PluginRecord): Gate | undefined {
  if (gate || base) return gate
  return { isFailed: state === 'failed', why: reason ?? `${name} is ${state}.` }
}

/** The state a plugin has once nothing is pending. */
export const settledState = (record: PluginRecord): PluginState =>
  record.visibility === 'on-demand' ? 'available' : 'loaded'

/** What is wrong with a plugin that serves all the same. */
export const complaintOf = ({ complaint, readyFault }: PluginRecord): string | undefined =>
  complaint ?? readyFault

/** Puts a plugin into a state, from now on. */
export function enter(record: PluginRecord, state: PluginState, reason?: string): void {
  record.state = state
  record.reason = reason
  record.since = new Date()
}

/** One plain line for the boot report: `notes available (on-demand)`. */
export function stateLine(record: PluginRecord): string {
  const { name, state, visibility, reason } = record
  if (state === 'loaded' || state === 'available') return `${name} ${state} (${visibility})`
  return `${name} ${state}${reason ? `: ${reason}` : ''}`
}

/** Whether an error only says that a plugin is pending or failed. The log has said so, with the cause. */
export const isGateCode = (code: string): boolean =>
  code === 'PLUGIN_PENDING' || code === 'PLUGIN_FAILED'

/** What the plugins of an app say of themselves, but for those that stay silent. */
export const capabilitiesOf = (records: readonly PluginRecord[]): CapabilityFacts[] =>
  records
    .filter(({ visibility, isAdded }) => visibility !== 'silent' && !isAdded)
    .map((record) => {
      const { name, definition } = record
      const { summary, whenToUse = [], examples = [], tags = [], category } = definition
      const told = { name, summary, whenToUse, examples, tags, ...(category && { category }) }
      return { ...told, isOn: isActive(record) }
    })
