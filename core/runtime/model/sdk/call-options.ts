import { fieldsIn, isRecord } from '../../base/fields.ts'
import type { ModelRequest, ModelSettings } from '../../../plugin.ts'
import { isThoughtThrough, promptOf } from './prompt.ts'

/** How hard a model thinks, in the fields of its package. */
export type ThinkingOptions = (
  reasoning: NonNullable<ModelSettings['reasoning']>,
) => Readonly<Record<string, unknown>>

/** How one model of the AI SDK is asked. */
export interface SdkCall {
  readonly origin: string
  readonly version: string
  readonly headers?: Readonly<Record<string, string>>
  /** What goes to the package with every call: its `providerOptions`. */
  readonly providerOptions?: Readonly<Record<string, unknown>>
  /** The `providerOptions` that make a model of version 3 think, which has no word of its own for it. */
  readonly thinking?: ThinkingOptions
  /** The provider lets a model think only in turns whose answers with calls each begin with a signed thought of its own. */
  readonly thinksThrough?: boolean
  /** The `providerOptions` of the first call of each answer of another model, where the provider wants its signature. */
  readonly callOfOthers?: Readonly<Record<string, unknown>>
}

/** What a call of the AI SDK is made with. */
export async function callOptions(request: ModelRequest, asking: SdkCall): Promise<object> {
  const { tools, signal, settings = {} } = request
  const { temperature, topP, maxOutputTokens, toolChoice, object, body } = settings
  const { version, headers, thinking, thinksThrough, origin } = asking
  const mayThink = !thinksThrough || isThoughtThrough(request.messages, origin)
  const reasoning = mayThink ? settings.reasoning : undefined
  const ofThinking = reasoning && version === 'v3' ? thinking?.(reasoning) : undefined
  const providerOptions = merged(merged(asking.providerOptions ?? {}, ofThinking), body)
  return {
    prompt: await promptOf(request, asking),
    abortSignal: signal,
    ...given({ temperature, topP, maxOutputTokens, headers }),
    ...(reasoning && version !== 'v3' && { reasoning }),
    ...(object && { responseFormat: { type: 'json', ...object, schema: plain(object.schema) } }),
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parameters }) => ({
        type: 'function',
        name,
        description,
        inputSchema: plain(parameters),
      })),
      ...(toolChoice !== undefined && { toolChoice: choiceOf(toolChoice) }),
    }),
    ...(Object.keys(providerOptions).length > 0 && { providerOptions }),
  }
}

/** The fields of an object that are set. */
function given(fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** Two objects as one; where both have an object under a name, its fields are joined too. */
function merged(
  first: Readonly<Record<string, unknown>>,
  second: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const joined: Record<string, unknown> = { ...first }
  for (const [name, value] of Object.entries(second))
    joined[name] = isRecord(value) ? { ...fieldsIn(first[name]), ...value } : value
  return joined
}

function plain({ $schema: _, ...schema }: Readonly<Record<string, unknown>>): object {
  return schema
}

function choiceOf(choice: NonNullable<ModelSettings['toolChoice']>): object {
  return typeof choice === 'object' ? { type: 'tool', toolName: choice.tool } : { type: choice }
}
