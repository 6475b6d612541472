import { fieldsJson, type Changes, type ModelSettings } from '#core/models'

/** How many tokens a model of the older kind may think. */
const budgets = { none: 0, low: 2048, medium: 8192, high: 24_576, max: 24_576 } as const
const levels = { none: 'minimal', low: 'low', medium: 'medium', high: 'high', max: 'high' } as const
/** Fields that are never set by hand. */
const own = ['model', 'contents', 'tools', 'messages', 'stream']

/** The settings of a request as fields of its body, each with a comma before it. What the server refused is left out. */
export function settingsJson(
  settings: ModelSettings,
  { model, changes, hasTools }: { model: string; changes: Changes; hasTools: boolean },
): string {
  const { temperature, topP, maxOutputTokens, toolChoice, object, body = {} } = settings
  const most = changes.get('maxOutputTokens')
  const length =
    typeof most === 'number' && maxOutputTokens !== undefined
      ? Math.min(most, maxOutputTokens)
      : maxOutputTokens
  const config: Readonly<Record<string, unknown>> = {
    temperature,
    topP,
    maxOutputTokens: length,
    thinkingConfig: thinkingOf(settings, model, changes),
    responseMimeType: object && 'application/json',
    responseJsonSchema: object && withoutMeta(object.schema),
    ...(isObject(body.generationConfig) && body.generationConfig),
  }
  const taken = Object.entries(config).filter(
    ([name, value]) => value !== undefined && changes.get(name) !== false,
  )
  const fields: Readonly<Record<string, unknown>> = {
    toolConfig: hasTools ? choiceOf(toolChoice) : undefined,
    ...body,
    generationConfig: taken.length > 0 ? Object.fromEntries(taken) : undefined,
  }
  return fieldsJson(fields, own)
}

function thinkingOf(
  { reasoning }: ModelSettings,
  model: string,
  changes: Changes,
): object | undefined {
  const way = changes.get('thinking') ?? (/gemini-2\.5/.test(model) ? 'budget' : 'level')
  if (reasoning === undefined || way === 'off') return undefined
  const shown = reasoning !== 'none' &&
    changes.get('includeThoughts') !== false && { includeThoughts: true }
  if (way === 'budget') return { thinkingBudget: budgets[reasoning], ...shown }
  const level = levels[reasoning]
  // What a model does not know is asked for one step higher: it then thinks at least as much as was asked for.
  const higher = { minimal: 'low', medium: 'high', low: 'low', high: 'high' } as const
  return { thinkingLevel: changes.get(level) === false ? higher[level] : level, ...shown }
}

function choiceOf(choice: ModelSettings['toolChoice']): object | undefined {
  if (choice === undefined) return undefined
  if (typeof choice === 'object')
    return { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [choice.tool] } }
  const modes = { auto: 'AUTO', required: 'ANY', none: 'NONE' } as const
  return { functionCallingConfig: { mode: modes[choice] } }
}

function withoutMeta({ $schema: _, ...schema }: Readonly<Record<string, unknown>>): object {
  return schema
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
