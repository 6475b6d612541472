import type { AnyDefinition } from '../plugin.ts'
import { didYouMean } from './did-you-mean.ts'
import { requiredNames } from './load-order.ts'

/** What the agent reads of one plugin when it lists the capabilities. */
export interface Capability {
  readonly name: string
  readonly summary: string
  readonly visibility: string
  readonly loaded: boolean
  /** Whether the plugin loads when the features of the app do not name it: `on`, `off` or `development`. */
  readonly defaultState: string
  readonly stability: string
  readonly category?: string
  readonly tags?: readonly string[]
  /** The names of the plugins that this one requires. */
  readonly requires: readonly string[]
}

/** What `load_capability` answers for one name. */
export interface LoadedCapability {
  readonly name: string
  readonly summary: string
  readonly whenToUse?: readonly string[]
  readonly whenNotToUse?: readonly string[]
  readonly examples?: readonly string[]
  /** The tools, and `call_<name>` of each sub-agent. */
  readonly tools: readonly { readonly name: string; readonly description: string }[]
  /** A sentence where the plugin may have tools of this user beside these. */
  readonly moreTools?: string
  readonly alreadyLoaded?: true
}

/** What `list_capabilities` says of one plugin. */
export function capability(definition: AnyDefinition, loaded: boolean): Capability {
  const {
    name,
    summary,
    visibility = 'on-demand',
    defaultState = 'on',
    stability = 'stable',
    category,
    tags,
  } = definition
  const requires = requiredNames(definition)
  return { name, summary, visibility, loaded, defaultState, stability, category, tags, requires }
}

/** The plugins that share a word with the query, the best match first; all plugins when none does. */
export function narrow(
  definitions: readonly AnyDefinition[],
  query: string | undefined,
): readonly AnyDefinition[] {
  const words = (query ?? '').toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? []
  if (words.length === 0) return definitions
  const scored = definitions
    .map((definition) => ({ definition, score: score(definition, words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
  return scored.length ? scored.map(({ definition }) => definition) : definitions
}

function score(definition: AnyDefinition, words: readonly string[]): number {
  const { name, summary, whenToUse = [], tags = [], category = '' } = definition
  const text = [name, summary, category, ...whenToUse, ...tags].join(' ').toLowerCase()
  return words.filter((word) => text.includes(word.replace(/(ies|es|s)$/, ''))).length
}

/** Above this many on-demand plugins the prompt no longer lists them one by one. */
const listedInPrompt = 30

/** The lines of the system prompt that tell the agent what it can load. */
export function promptLines(onDemand: readonly AnyDefinition[]): string {
  if (onDemand.length === 0) return ''
  if (onDemand.length > listedInPrompt)
    return (
      `${onDemand.length} more capabilities can be loaded: ` +
      'find them with list_capabilities({ query }), then load_capability({ names }).'
    )
  const lines = onDemand.map(({ name, summary }) => `- ${name}: ${summary}`)
  return [
    'Capabilities that load_capability({ names }) brings in, with their tools, within this turn:',
    ...lines,
  ].join('\n')
}

/** The plugin name closest to `name`; undefined when none is close. */
export function suggestion(
  name: string,
  definitions: readonly AnyDefinition[],
): string | undefined {
  return didYouMean(
    name,
    definitions.map((definition) => definition.name),
  )
}
