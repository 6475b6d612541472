import type { ModelUsage } from '../../../core/plugin.ts'
import type { ProviderRequest } from '../answers.ts'
import { fieldsIn, piecesOf } from '../read.ts'
import type { Frame, Provider, Spoken, Wire } from '../wire.ts'
import { chatFault } from './chat-check.ts'
import { thinkingOf } from './chat-dialects.ts'
import { bearerOf, errorBody, failure } from './openai-error.ts'

/** With a version, as most servers have it; without, as some do; and by the name of a deployment. */
const pathForm = /^(\/[\w.-]+)*\/(v\d\w*(\/openai)?|deployments\/[^/]+)\/chat\/completions$/

/** `POST /v1/chat/completions` and the many addresses like it: chunks in an event stream. */
export const chat: Wire = {
  name: 'chat',
  matches: (path) => pathForm.test(path),
  modelIn: (path) => /\/deployments\/([^/]+)\//.exec(path)?.[1],
  keyOf: bearerOf,
  refusal(request, provider) {
    const fault = chatFault(request, provider)
    if (!fault) return undefined
    const { message, code, raw } = fault
    const { error } = errorBody(400, message, code)
    const metadata = raw && {
      metadata: { raw: JSON.stringify(errorBody(400, raw)), provider_name: 'Upstream' },
    }
    return { status: 400, message: raw ?? message, body: { error: { ...error, ...metadata } } }
  },
  frames,
  last: '[DONE]',
  error: errorBody,
  failure,
  streamError: (status, message): Frame => ({ data: errorBody(status, message) }),
}

function* frames(spoken: Spoken, { body }: ProviderRequest, provider: Provider): Iterable<Frame> {
  const { answer, model, words, calls, usages, finish, argsPerChunk } = spoken
  const head = { id: `chatcmpl-${answer}`, object: 'chat.completion.chunk', created: 0, model }
  const chunk = (delta: object, finish_reason: string | null = null): Frame => ({
    data: { ...head, choices: [{ index: 0, delta, finish_reason }] },
  })
  yield chunk({ role: 'assistant', content: '' })
  const { deltas, wanted, beside } = thinkingOf(spoken, provider)
  for (const delta of deltas) yield chunk(delta)
  for (const content of words) yield chunk({ content })
  for (const [index, { id, name, json }] of calls.entries()) {
    provider.memory.add(id, { answer, name: name ?? '', wanted })
    const named = { ...(name !== null && { name }), arguments: '' }
    const first = { index, id, type: 'function', function: named, ...beside(index) }
    yield chunk({ tool_calls: [first] })
    for (const piece of piecesOf(json, argsPerChunk))
      yield chunk({ tool_calls: [{ index, function: { arguments: piece } }] })
  }
  if (spoken.isCut) return
  const reason = calls.length > 0 ? 'tool_calls' : 'stop'
  yield chunk({}, { stop: reason, length: 'length', refused: 'content_filter' }[finish])
  // The usage comes only when it is asked for.
  if (fieldsIn(body.stream_options).include_usage !== true) return
  for (const usage of usages) yield { data: { ...head, choices: [], usage: usageOf(usage) } }
}

/** The wire counts cached tokens among those that were read, and thought ones among those that were written. */
function usageOf(usage: ModelUsage) {
  const { inputTokens, outputTokens, cachedTokens, cacheWriteTokens, reasoningTokens, cost } = usage
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: {
      cached_tokens: cachedTokens ?? 0,
      ...(cacheWriteTokens !== undefined && { cache_write_tokens: cacheWriteTokens }),
    },
    completion_tokens_details: { reasoning_tokens: reasoningTokens ?? 0 },
    ...(cost !== undefined && { cost: Number(cost) / 1e9 }),
  }
}
