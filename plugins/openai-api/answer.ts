import { partsOf, RuntimeError, type StartedTurn, type TurnPart } from '#core'
import { toOpenAi } from './faults.ts'
import { callIdOf, completionIdOf } from './names.ts'

/** What every piece of an answer says of itself. */
export interface About {
  readonly runId: string
  readonly model: string
  readonly created: number
  readonly withUsage: boolean
  readonly withSteps: boolean
}

type End = Extract<TurnPart, { type: 'end' }>
type Calls = Extract<TurnPart, { type: 'client-calls' }>

const usageOf = ({ usage }: End) => {
  const { inputTokens = 0, outputTokens = 0, cachedTokens, reasoningTokens } = usage ?? {}
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    ...(cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    ...(reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: reasoningTokens },
    }),
  }
}

const toolCallsOf = ({ runId, calls }: Calls) =>
  calls.map(({ toolCallId, toolName, args }, index) => ({
    index,
    id: callIdOf(runId, toolCallId),
    type: 'function' as const,
    function: { name: toolName, arguments: JSON.stringify(args) },
  }))

/** A turn as the pieces of a streamed answer. */
export async function* streamed(
  turn: StartedTurn,
  about: About,
): AsyncGenerator<unknown, void, void> {
  const { withUsage, withSteps } = about
  const head = {
    id: completionIdOf(about.runId),
    object: 'chat.completion.chunk',
    created: about.created,
    model: about.model,
  }
  const chunk = (delta: object, finish: string | null = null) => ({
    ...head,
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
    ...(withUsage && { usage: null }),
  })
  yield chunk({ role: 'assistant', content: '' })
  let calls = false
  for await (const part of partsOf(turn)) {
    if (part.type === 'text') yield chunk({ content: part.text })
    else if (part.type === 'reasoning') yield chunk({ reasoning_content: part.text })
    else if (part.type === 'call' && withSteps)
      yield chunk({ reasoning_content: `Uses ${part.toolName} …\n` })
    else if (part.type === 'client-calls') {
      calls = true
      yield chunk({ tool_calls: toolCallsOf(part) })
    } else if (part.type === 'error') {
      yield toOpenAi({ ...part, status: part.status ?? 500 })
      break
    } else if (part.type === 'end') {
      yield chunk({}, calls ? 'tool_calls' : (part.ended ?? 'stop'))
      if (withUsage) yield { ...head, choices: [], usage: usageOf(part) }
    }
  }
  yield '[DONE]'
}

/** A turn as one answer. Throws what the turn failed with. */
export async function whole(turn: StartedTurn, about: About) {
  let content = ''
  let reasoning = ''
  let calls: ReturnType<typeof toolCallsOf> | undefined
  let end: End | undefined
  for await (const part of partsOf(turn)) {
    if (part.type === 'text') content += part.text
    else if (part.type === 'reasoning') reasoning += part.text
    else if (part.type === 'call' && about.withSteps) reasoning += `Uses ${part.toolName} …\n`
    else if (part.type === 'client-calls') calls = toolCallsOf(part)
    else if (part.type === 'error')
      throw new RuntimeError(part.code, part.message, { status: part.status })
    else if (part.type === 'end') end = part
  }
  const message = {
    role: 'assistant',
    content: content === '' && calls ? null : content,
    refusal: null,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls && { tool_calls: calls.map(({ index: _, ...call }) => call) }),
  }
  const finish_reason = calls ? 'tool_calls' : (end?.ended ?? 'stop')
  return {
    id: completionIdOf(about.runId),
    object: 'chat.completion',
    created: about.created,
    model: about.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason }],
    usage: end && usageOf(end),
  }
}
