import type { ModelUsage } from '../../../core/plugin.ts'
import type { ProviderRequest } from '../answers.ts'
import { itemsOf, piecesOf, wordsOf } from '../read.ts'
import type { Frame, Provider, Spoken, Wire } from '../wire.ts'
import { bearerOf, errorBody, failure } from './openai-error.ts'
import { responsesFault } from './responses-check.ts'

/** `POST /v1/responses`: items in an event stream. */
export const responses: Wire = {
  name: 'responses',
  matches: (path) => /^\/(openai\/)?v1\/responses$/.test(path),
  keyOf: bearerOf,
  refusal(request, provider) {
    const fault = responsesFault(request, provider)
    if (!fault) return undefined
    const { message, code } = fault
    return { status: 400, message, body: errorBody(400, message, code) }
  },
  *frames(spoken, request, provider) {
    let sequence_number = 0
    for (const data of eventsOf(spoken, request, provider))
      yield { event: data.type, data: { ...data, sequence_number: sequence_number++ } }
  },
  error: errorBody,
  failure,
  streamError: (_, message): Frame => ({
    event: 'error',
    data: { type: 'error', code: 'server_error', message, param: null, sequence_number: 99 },
  }),
}

interface Event {
  readonly type: string
  readonly [field: string]: unknown
}

/** One item of the output, as it begins and as it ends, and what is streamed between. */
interface SentItem {
  readonly begun: object
  readonly done: object
  readonly between: readonly Event[]
}

function* eventsOf(spoken: Spoken, request: ProviderRequest, provider: Provider): Iterable<Event> {
  const { answer, model, usages, finish } = spoken
  const response = (status: string, output: readonly object[], usage: unknown = null) => ({
    id: `resp_${answer}`,
    object: 'response',
    created_at: 0,
    model,
    status,
    output,
    usage,
    error: null,
    incomplete_details:
      finish === 'stop'
        ? null
        : { reason: finish === 'length' ? 'max_output_tokens' : 'content_filter' },
  })
  yield { type: 'response.created', response: response('in_progress', []) }
  yield { type: 'response.in_progress', response: response('in_progress', []) }
  const output: object[] = []
  for (const { begun, between, done } of sentItems(spoken, request, provider)) {
    const output_index = output.push(done) - 1
    yield { type: 'response.output_item.added', output_index, item: begun }
    for (const event of between) yield { ...event, output_index }
    yield { type: 'response.output_item.done', output_index, item: done }
  }
  if (spoken.isCut) return
  const status = finish === 'stop' ? 'completed' : 'incomplete'
  for (const usage of usages.length > 0 ? usages : [undefined]) {
    const told = usage === undefined ? undefined : usageOf(usage)
    yield { type: `response.${status}`, response: response(status, output, told) }
  }
}

function* sentItems(
  { answer, thoughts, isSigned, signatureBytes, words, calls, argsPerChunk }: Spoken,
  { body }: ProviderRequest,
  { signer, memory }: Provider,
): Iterable<SentItem> {
  const isWanted = itemsOf(body.include).includes('reasoning.encrypted_content')
  const ids = thoughts.map((_, place) => `rs_${answer}${place}`)
  for (const [place, thought] of thoughts.entries()) {
    const id = ids[place] ?? ''
    const encrypted = signer.sign({ answer, place }, id, place === 0 ? signatureBytes : 0)
    const summary = [{ type: 'summary_text', text: thought }]
    const sealed = isWanted && isSigned ? { encrypted_content: encrypted } : {}
    const at = { item_id: id, summary_index: 0 }
    yield {
      begun: { id, type: 'reasoning', summary: [], ...sealed },
      between: [
        {
          type: 'response.reasoning_summary_part.added',
          ...at,
          part: { type: 'summary_text', text: '' },
        },
        ...wordsOf(thought).map((delta) => {
          return { type: 'response.reasoning_summary_text.delta', ...at, delta }
        }),
        { type: 'response.reasoning_summary_text.done', ...at, text: thought },
        { type: 'response.reasoning_summary_part.done', ...at, part: summary[0] },
      ],
      done: { id, type: 'reasoning', summary, ...sealed },
    }
  }
  if (words.length > 0) yield saidItem(answer, words)
  for (const [nth, { id: call_id, name, json }] of calls.entries()) {
    // Without the encrypted content a client has nothing to give back.
    memory.add(call_id, { answer, name: name ?? '', wanted: isWanted && isSigned ? ids : [] })
    const id = `fc_${answer}${nth}`
    const call = { id, type: 'function_call', call_id, ...(name !== null && { name }) }
    yield {
      begun: { ...call, status: 'in_progress', arguments: '' },
      between: [
        ...piecesOf(json || '{}', argsPerChunk).map((delta) => {
          return { type: 'response.function_call_arguments.delta', item_id: id, delta }
        }),
        { type: 'response.function_call_arguments.done', item_id: id, arguments: json || '{}' },
      ],
      done: { ...call, status: 'completed', arguments: json || '{}' },
    }
  }
}

function saidItem(answer: string, words: readonly string[]): SentItem {
  const id = `msg_${answer}`
  const item = { id, type: 'message', role: 'assistant' }
  const part = (text: string) => ({ type: 'output_text', text, annotations: [] })
  const text = words.join('')
  const at = { item_id: id, content_index: 0 }
  return {
    begun: { ...item, status: 'in_progress', content: [] },
    between: [
      { type: 'response.content_part.added', ...at, part: part('') },
      ...words.map((delta) => ({ type: 'response.output_text.delta', ...at, delta })),
      { type: 'response.output_text.done', ...at, text },
      { type: 'response.content_part.done', ...at, part: part(text) },
    ],
    done: { ...item, status: 'completed', content: [part(text)] },
  }
}

/** The wire counts cached tokens among those that were read, and thought ones among those that were written. */
function usageOf(usage: ModelUsage) {
  const { inputTokens, outputTokens, cachedTokens = 0, reasoningTokens = 0 } = usage
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: inputTokens + outputTokens,
  }
}
