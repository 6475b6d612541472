import { fieldsJson, type Changes, type ModelSettings } from '#core/models'
import { strictSchema } from './schema.ts'

/** How many tokens an answer has at most, where nothing is set: the provider wants a number. */
const usualMaxTokens = 32_000
/** The smallest budget of thinking that the provider takes. */
const leastBudget = 1024
/** How much of an answer a model may think, where it takes a budget. */
const shares = { low: 0.2, medium: 0.5, high: 0.8, max: 0.8 } as const
/** Fields that are never set by hand. */
const own = ['model', 'messages', 'tools', 'stream', 'system']

/** What the settings depend on. */
interface Asking {
  readonly changes: Changes
  readonly hasTools: boolean
  /** Whether the messages of the turn allow thinking with a budget. */
  readonly thinksByHand: boolean
}

/** The settings of a request as fields of its body, each with a comma before it. What the server refused is left out. */
export function settingsJson(settings: ModelSettings, asking: Asking): string {
  const { changes, hasTools } = asking
  const { temperature, topP, toolChoice, object } = settings
  const most = changes.get('max_tokens')
  const wanted = settings.maxOutputTokens ?? usualMaxTokens
  const maxTokens = typeof most === 'number' ? Math.min(most, wanted) : wanted
  const { thinking, effort } = thinkingOf(settings, maxTokens, asking)
  const isThinking = thinking !== undefined && thinking.type !== 'disabled'
  const format = object && { type: 'json_schema', schema: strictSchema(object.schema) }
  const fields: Readonly<Record<string, unknown>> = {
    max_tokens: maxTokens,
    // A model that thinks takes neither.
    temperature: isThinking ? undefined : temperature,
    top_p: isThinking ? undefined : topP,
    thinking,
    output_config:
      effort || format ? { ...(effort && { effort }), ...(format && { format }) } : undefined,
    tool_choice: hasTools ? choiceOf(toolChoice) : undefined,
    ...settings.body,
  }
  return fieldsJson(fields, own, changes)
}

interface Thinking {
  readonly thinking?: { readonly type: string; readonly budget_tokens?: number }
  readonly effort?: string
}

function thinkingOf(
  { reasoning, toolChoice }: ModelSettings,
  maxTokens: number,
  { changes, hasTools, thinksByHand }: Asking,
): Thinking {
  if (reasoning === undefined) return {}
  if (reasoning === 'none')
    return changes.get('disabled') === false ? {} : { thinking: { type: 'disabled' } }
  // The provider takes no forced call from a model that thinks.
  const isForced = toolChoice === 'required' || typeof toolChoice === 'object'
  const way = changes.get('thinking') ?? 'adaptive'
  if (way === 'off' || (isForced && hasTools)) return {}
  if (way === 'adaptive') {
    const lowered = changes.get('effort')
    const effort = reasoning === 'max' && typeof lowered === 'string' ? lowered : reasoning
    return {
      thinking: { type: 'adaptive' },
      ...(lowered !== false && { effort }),
    }
  }
  if (!thinksByHand || maxTokens <= leastBudget) return {}
  const budget = Math.max(leastBudget, Math.floor(maxTokens * shares[reasoning]))
  return { thinking: { type: 'enabled', budget_tokens: Math.min(budget, maxTokens - 1) } }
}

function choiceOf(choice: ModelSettings['toolChoice']): object | undefined {
  if (choice === undefined) return undefined
  if (typeof choice === 'object') return { type: 'tool', name: choice.tool }
  return { type: choice === 'required' ? 'any' : choice }
}
