import type { ModelUsage } from '../../../core/plugin.ts'
import type { ProviderFailure, ProviderRequest } from '../answers.ts'
import { parsed, textOf, wordsOf } from '../read.ts'
import type { Frame, Provider, Spoken, Wire } from '../wire.ts'
import { callContent, generateContentFault } from './generate-content-check.ts'

const pathForm = /^\/v1(?:beta)?\/models\/([^/:]+):streamGenerateContent$/

/** `POST /v1beta/models/<model>:streamGenerateContent?alt=sse`: parts in an event stream. */
export const generateContent: Wire = {
  name: 'generateContent',
  matches: (path) => pathForm.test(path),
  modelIn: (path) => decodeURIComponent(pathForm.exec(path)?.[1] ?? ''),
  keyOf: ({ headers, path }) =>
    textOf(headers['x-goog-api-key']) ||
    (new URL(path, 'http://localhost').searchParams.get('key') ?? ''),
  keyStatus: 400,
  refusal(request, provider) {
    // Without the parameter the server sends one JSON list, which this fake does not do.
    const isStream = new URL(request.path, 'http://localhost').searchParams.get('alt') === 'sse'
    const message = isStream
      ? generateContentFault(request, provider)
      : 'Ask for an event stream: add "?alt=sse" to the address.'
    return message === undefined
      ? undefined
      : { status: 400, message, body: errorBody(400, message) }
  },
  frames,
  error: errorBody,
  failure,
  streamError: (status, message): Frame => ({ data: errorBody(status, message) }),
}

function* frames(spoken: Spoken, _: ProviderRequest, provider: Provider): Iterable<Frame> {
  const { usages, finish } = spoken
  const chunk = (parts: readonly object[], rest: object = {}, usage?: ModelUsage): Frame => ({
    data: {
      candidates: [{ content: { role: 'model', parts }, index: 0, ...rest }],
      ...(usage && { usageMetadata: usageOf(usage) }),
      modelVersion: spoken.model,
      responseId: spoken.answer,
    },
  })
  for (const part of partsOf(spoken, provider)) yield chunk([part])
  if (spoken.isCut) return
  const finishReason = { stop: 'STOP', length: 'MAX_TOKENS', refused: 'SAFETY' }[finish]
  const [first, ...more] = usages
  yield chunk([{ text: '' }], { finishReason }, first)
  for (const usage of more) yield chunk([{ text: '' }], { finishReason }, usage)
}

function* partsOf(
  { answer, thoughts, words, calls, isSigned, signatureBytes }: Spoken,
  { signer, memory }: Provider,
): Iterable<object> {
  for (const thought of thoughts) for (const text of wordsOf(thought)) yield { text, thought: true }
  for (const text of words) yield { text }
  // An answer without calls signs its last part, which may be empty.
  if (thoughts.length > 0 && calls.length === 0 && isSigned)
    yield { text: '', thoughtSignature: signer.sign({ answer, place: 0 }, '', signatureBytes) }
  for (const [nth, { id, name, json }] of calls.entries()) {
    const args = parsed(json) ?? {}
    const isFirst = nth === 0 && isSigned
    const content = callContent(name ?? '', args)
    const signed = signer.sign({ answer, place: nth }, content, signatureBytes)
    memory.add(id, { answer, name: name ?? '', wanted: isSigned ? [signed] : [] })
    yield {
      functionCall: { id, ...(name !== null && { name }), args },
      ...(isFirst && { thoughtSignature: signed }),
    }
  }
}

/** The wire counts cached tokens among those that were read, and thought ones beside those that were written. */
function usageOf({ inputTokens, outputTokens, cachedTokens, reasoningTokens = 0 }: ModelUsage) {
  return {
    promptTokenCount: inputTokens,
    ...(cachedTokens !== undefined && { cachedContentTokenCount: cachedTokens }),
    candidatesTokenCount: outputTokens - reasoningTokens,
    thoughtsTokenCount: reasoningTokens,
    totalTokenCount: inputTokens + outputTokens,
  }
}

const statuses: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

function errorBody(status: number, message: string) {
  return { error: { code: status, message, status: statuses[status] ?? 'UNKNOWN' } }
}

function failure({ status, why }: ProviderFailure, request: ProviderRequest) {
  const { model, tokens } = request
  if (why === 'quota')
    return {
      message: 'You exceeded your current quota, please check your plan and billing details.',
    }
  if (why === 'content')
    return { message: 'The prompt was blocked: PROHIBITED_CONTENT, content_policy.' }
  if (why === 'context')
    return {
      message: `The input token count (${tokens}) exceeds the maximum number of tokens allowed (${Math.ceil(tokens / 2)}).`,
    }
  const said: Readonly<Record<number, string>> = {
    400: 'Request contains an invalid argument.',
    401: `API key not valid. Please pass a valid API key: ${generateContent.keyOf(request)}`,
    404: `models/${model} is not found for API version v1beta, or is not supported for generateContent.`,
    429: 'Resource has been exhausted (e.g. check quota).',
    500: 'An internal error has occurred. Please retry.',
    503: 'The model is overloaded. Please try again later.',
  }
  return { message: said[status] ?? `Status ${status}` }
}
