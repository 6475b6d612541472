import { z } from 'zod'
import {
  capability,
  narrow,
  suggestion,
  type LoadedCapability,
} from '../../../manifest/catalogue.ts'
import type { AnyTool } from '../../../plugin.ts'
import { gateOf, isActive, type PluginRecord } from '../../base/plugin-record.ts'
import type { Turn } from './turn.ts'

/** Whether a thread that has loaded these plugins can call the tools of this one. */
export const isLoaded = (record: PluginRecord, loaded: ReadonlySet<string>): boolean =>
  record.visibility === 'always' || (record.visibility === 'on-demand' && loaded.has(record.name))

/** Whether the turn has the tools of this plugin: it is loaded, or the tool is one that was named for the turn. */
export const isAtHand = (record: PluginRecord, tool: string, turn: Turn): boolean =>
  maySee(record, turn) &&
  (isLoaded(record, turn.loaded) ||
    (record.visibility !== 'silent' && turn.allow?.has(tool) === true))

/** Whether the turn may have the tool at all. */
export const mayCall = ({ allow }: Turn, tool: string): boolean => allow?.has(tool) ?? true

/** Whether a text can be the name of a tool: providers of models refuse other names. */
export const isToolName = (name: string): boolean => /^[A-Za-z0-9_-]{1,64}$/.test(name)

/** Whether a plugin may give agents tools by `toolsFor`. */
export const mayGive = ({ visibility, definition }: PluginRecord): boolean =>
  visibility !== 'silent' && definition.toolsFor !== undefined

/** Whether the user of the turn has the right that a plugin asks of everybody who is to see it. A test's thread has no rights. */
export const maySee = ({ definition: { can } }: PluginRecord, { user, rights }: Seeing): boolean =>
  can === undefined || rights === undefined || user.can(can, rights.oracleDid)

/** The plugins that the agent may know of in a turn. */
export const visibleTo = (records: readonly PluginRecord[], turn: Seeing): PluginRecord[] =>
  records.filter(
    (record) => isActive(record) && record.visibility !== 'silent' && maySee(record, turn),
  )

/** As much of a turn as says which plugins its user sees. */
type Seeing = Pick<Turn, 'user' | 'rights'>

/** What the model reads after it asked for capabilities: those it has now, and why it did not get the others. */
export interface LoadResult {
  readonly loaded: readonly LoadedCapability[]
  readonly unknown?: readonly { readonly name: string; readonly didYouMean?: string }[]
  readonly unavailable?: readonly { readonly name: string; readonly reason: string }[]
}

/** Adds the known names to the thread's set. An unknown name gets a suggestion and does not stop the others from loading. */
export function loadCapabilities(
  records: readonly PluginRecord[],
  names: readonly string[],
  loaded: Set<string>,
  turn: Seeing,
): LoadResult {
  const visible = visibleTo(records, turn)
  const definitions = visible.map((record) => record.definition)
  const result = {
    loaded: [] as LoadedCapability[],
    unknown: [] as { name: string; didYouMean?: string }[],
    unavailable: [] as { name: string; reason: string }[],
  }
  for (const name of new Set(names)) {
    const record = visible.find((record) => record.name === name)
    const gate = record && gateOf(record)
    if (!record) result.unknown.push({ name, didYouMean: suggestion(name, definitions) })
    else if (gate)
      result.unavailable.push({ name, reason: gate.isFailed ? gate.why : `not ready: ${gate.why}` })
    else {
      const alreadyLoaded = isLoaded(record, loaded)
      if (record.visibility === 'on-demand') loaded.add(name)
      result.loaded.push({
        ...describe(record),
        ...(alreadyLoaded && { alreadyLoaded: true as const }),
      })
    }
  }
  return {
    loaded: result.loaded,
    ...(result.unknown.length && { unknown: result.unknown }),
    ...(result.unavailable.length && { unavailable: result.unavailable }),
  }
}

function describe({ definition, tools }: PluginRecord): LoadedCapability {
  const { name, summary, whenToUse, whenNotToUse, examples, subAgents = {} } = definition
  const listed = [
    ...Object.entries(tools),
    ...Object.entries(subAgents).map(([name, subAgent]) => [`call_${name}`, subAgent] as const),
  ].map(([name, { description }]) => ({ name, description }))
  return {
    name,
    summary,
    whenToUse,
    whenNotToUse,
    examples,
    tools: listed,
    ...(definition.toolsFor && {
      moreTools: 'This user may have more tools here: see your next step.',
    }),
  }
}

/** The kernel's two tools. They get the whole turn, because they change the thread's set of loaded plugins. */
export function capabilityTools(records: readonly PluginRecord[]) {
  return {
    list_capabilities: {
      description:
        'Lists what you can do here: every plugin with its summary and whether it is loaded. Give a query to narrow a long list.',
      effect: 'read',
      input: z.object({ query: z.string().max(200).optional() }),
      run: ({ query }, turn) => {
        const definitions = visibleTo(records, turn).map((record) => record.definition)
        const byName = new Map(records.map((record) => [record.name, record]))
        return {
          plugins: narrow(definitions, query).map((definition) =>
            capability(definition, isLoaded(byName.get(definition.name)!, turn.loaded)),
          ),
        }
      },
    } satisfies KernelTool<{ query?: string }>,
    load_capability: {
      description:
        'Loads plugins by name. Their tools are yours from your next step in this same turn on. ' +
        'Answers with when to use each and its tools.',
      effect: 'read',
      saysWhy: true,
      input: z.object({
        names: z
          .array(z.string().min(1))
          .min(1)
          .max(50)
          .describe('Plugin names, as list_capabilities gives them'),
      }),
      run: ({ names }, turn) => loadCapabilities(records, names, turn.loaded, turn),
    } satisfies KernelTool<{ names: string[] }>,
  }
}

/** A tool of the kernel. It is like a plugin's tool, but its `run` gets the turn. */
export interface KernelTool<Input = never> extends Omit<
  AnyTool,
  'run' | 'can' | 'approve' | 'foreign' | 'enabled'
> {
  /** The event of a call names the words of others that the turn had read before the model made the call. */
  readonly saysWhy?: true
  run(input: Input, turn: Turn): unknown
}
