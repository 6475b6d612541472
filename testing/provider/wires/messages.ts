import type { ModelUsage } from '../../../core/plugin.ts'
import type { ProviderFailure, ProviderRequest } from '../answers.ts'
import { piecesOf, textOf, wordsOf } from '../read.ts'
import type { Frame, Provider, Spoken, Wire } from '../wire.ts'
import { messagesFault } from './messages-check.ts'

/** `POST /v1/messages`: blocks in an event stream. */
export const messages: Wire = {
  name: 'messages',
  matches: (path) => path === '/v1/messages',
  keyOf: ({ headers }) => textOf(headers['x-api-key']),
  refusal(request, provider) {
    const message = messagesFault(request, provider)
    return message === undefined
      ? undefined
      : { status: 400, message, body: errorBody(400, message) }
  },
  frames,
  error: errorBody,
  failure,
  streamError: (status, message) => ({ event: 'error', data: errorBody(status, message) }),
}

function* frames(spoken: Spoken, request: ProviderRequest, provider: Provider): Iterable<Frame> {
  const { answer, model, usages, calls, finish } = spoken
  const [first] = usages
  const message = {
    id: `msg_${answer}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(first && { usage: { ...usageOf(first), output_tokens: 1 } }),
  }
  yield named({ type: 'message_start', message })
  yield named({ type: 'ping' })
  for (const [index, block] of [...blocksOf(spoken, request, provider)].entries()) {
    yield named({ type: 'content_block_start', index, content_block: block.starts })
    for (const delta of block.deltas) yield named({ type: 'content_block_delta', index, delta })
    yield named({ type: 'content_block_stop', index })
  }
  if (spoken.isCut) return
  const reason = calls.length > 0 ? 'tool_use' : 'end_turn'
  const stop = { stop: reason, length: 'max_tokens', refused: 'refusal' }[finish]
  const delta = { stop_reason: stop, stop_sequence: null }
  if (usages.length === 0) yield named({ type: 'message_delta', delta })
  for (const usage of usages) yield named({ type: 'message_delta', delta, usage: usageOf(usage) })
  yield named({ type: 'message_stop' })
}

interface SentBlock {
  readonly starts: unknown
  readonly deltas: readonly unknown[]
}

function* blocksOf(
  { answer, thoughts, isRedacted, isSigned, signatureBytes, words, calls, argsPerChunk }: Spoken,
  _: ProviderRequest,
  { signer, memory }: Provider,
): Iterable<SentBlock> {
  const signatures = thoughts.map((thought, place) =>
    signer.sign({ answer, place }, isRedacted ? '' : thought, place === 0 ? signatureBytes : 0),
  )
  for (const [place, thought] of thoughts.entries())
    if (isRedacted) {
      yield { starts: { type: 'redacted_thinking', data: signatures[place] }, deltas: [] }
    } else
      yield {
        starts: { type: 'thinking', thinking: '', signature: '' },
        deltas: [
          ...wordsOf(thought).map((thinking) => ({ type: 'thinking_delta', thinking })),
          ...(isSigned ? [{ type: 'signature_delta', signature: signatures[place] }] : []),
        ],
      }
  if (words.length > 0)
    yield {
      starts: { type: 'text', text: '' },
      deltas: words.map((text) => ({ type: 'text_delta', text })),
    }
  for (const { id, name, json } of calls) {
    memory.add(id, { answer, name: name ?? '', wanted: isSigned ? signatures : [] })
    yield {
      starts: { type: 'tool_use', id, ...(name !== null && { name }), input: {} },
      deltas: piecesOf(json, argsPerChunk).map((partial_json) => {
        return { type: 'input_json_delta', partial_json }
      }),
    }
  }
}

/** The wire counts what came from the cache, and what was put there, beside the other tokens and not among them. */
function usageOf(usage: ModelUsage) {
  const { inputTokens, outputTokens, cachedTokens = 0, cacheWriteTokens = 0 } = usage
  return {
    input_tokens: inputTokens - cachedTokens - cacheWriteTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    output_tokens: outputTokens,
  }
}

const named = (data: { readonly type: string; readonly [field: string]: unknown }): Frame => ({
  event: data.type,
  data,
})

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

function errorBody(status: number, message: string) {
  const type = types[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
  return { type: 'error', error: { type, message }, request_id: 'req_fake' }
}

function failure({ status, why }: ProviderFailure, { model, tokens, headers }: ProviderRequest) {
  if (why === 'quota')
    return {
      message:
        'Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits.',
    }
  if (why === 'content') return { message: 'Output blocked by content filtering policy' }
  if (why === 'context')
    return { message: `prompt is too long: ${tokens} tokens > ${Math.ceil(tokens / 2)} maximum` }
  const said: Readonly<Record<number, string>> = {
    401: `invalid x-api-key: ${textOf(headers['x-api-key'])}`,
    404: `model: ${model}`,
    429: "This request would exceed your organization's rate limit of 50 requests per minute.",
    500: 'Internal server error',
    529: 'Overloaded',
  }
  return { message: said[status] ?? `Status ${status}` }
}
