import type { ProviderFailure, ProviderRequest } from '../answers.ts'
import { mediaFault } from '../media.ts'
import { fieldsIn, isRecord, parsed, recordsOf, textOf, wordsOf } from '../read.ts'
import type { Frame, Provider, Spoken, Wire } from '../wire.ts'
import { bearerOf } from './openai-error.ts'

/** How many tokens the server reads where the request does not say it. */
const usualWindow = 4096

/** `POST /api/chat`: a line of JSON for each piece. */
export const ollama: Wire = {
  name: 'ollama',
  matches: (path) => path === '/api/chat',
  keyOf: bearerOf,
  isOpen: true,
  contentType: 'application/x-ndjson',
  refusal(request, provider) {
    const message = ollamaFault(request, provider)
    return message === undefined ? undefined : { status: 400, message, body: { error: message } }
  },
  frames,
  error: (_, message) => ({ error: message }),
  failure,
  streamError: (_, message): Frame => ({ data: { error: message } }),
}

function* frames(spoken: Spoken, request: ProviderRequest, provider: Provider): Iterable<Frame> {
  const { answer, model, thoughts, words, calls, usages, finish } = spoken
  const line = (message: object, rest: object = { done: false }): Frame => ({
    data: {
      model,
      created_at: '2027-01-01T00:00:00Z',
      message: { role: 'assistant', content: '', ...message },
      ...rest,
    },
  })
  for (const thought of thoughts) for (const thinking of wordsOf(thought)) yield line({ thinking })
  for (const content of words) yield line({ content })
  for (const [index, { id, name, json }] of calls.entries()) {
    provider.memory.add(id, { answer, name: name ?? '', wanted: [] })
    const called = { index, ...(name !== null && { name }), arguments: parsed(json) ?? {} }
    yield line({ tool_calls: [{ id, function: called }] })
  }
  if (spoken.isCut) return
  const done_reason = finish === 'length' ? 'length' : 'stop'
  for (const usage of usages.length > 0 ? usages : [undefined])
    yield line(
      {},
      {
        done: true,
        done_reason,
        ...(usage && {
          // What is longer than the window was cut before it was read, without a word.
          prompt_eval_count: Math.min(usage.inputTokens, windowOf(request, provider)),
          eval_count: usage.outputTokens,
        }),
      },
    )
}

function windowOf({ body }: ProviderRequest, { rules }: Provider): number {
  const asked = fieldsIn(body.options).num_ctx
  return Math.min(typeof asked === 'number' ? asked : usualWindow, rules.window ?? Infinity)
}

/**
 * Why the request is not taken. The real server takes more: what it would silently leave out, and answer nonsense to, is
 * refused here in words of this fake.
 */
function ollamaFault({ body, media, model }: ProviderRequest, provider: Provider) {
  const { refuses = [] } = provider.rules
  const lines = recordsOf(body.messages)
  if (body.tools !== undefined && refuses.includes('tools'))
    return `registry.ollama.ai/library/${model} does not support tools`
  if (isRecord(body.format) && refuses.includes('object')) return 'invalid format: expected "json"'
  if (body.temperature !== undefined || body.max_tokens !== undefined)
    return 'The settings of a model stand in "options".'
  let called: string[] = []
  for (const line of lines) {
    const role = textOf(line.role)
    if (!['system', 'user', 'assistant', 'tool'].includes(role)) return `invalid role: "${role}"`
    if (line.content !== undefined && typeof line.content !== 'string')
      return 'json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string'
    const calls = recordsOf(line.tool_calls).map((call) => fieldsIn(call.function))
    if (calls.some((call) => !isRecord(call.arguments)))
      return (
        'json: cannot unmarshal string into Go struct field ToolCallFunction.messages.tool_calls.function.arguments ' +
        'of type api.ToolCallFunctionArguments'
      )
    if (role === 'tool') {
      const name = textOf(line.tool_name ?? line.name)
      if (!called.includes(name)) return `A result of "${name}" follows no call of it.`
      called.splice(called.indexOf(name), 1)
    } else {
      if (called.length > 0) return `The call of "${called.join('", "')}" has no result.`
      called = calls.map(({ name }) => textOf(name))
    }
  }
  if (called.length > 0) return `The call of "${called.join('", "')}" has no result.`
  return mediaFault(media)
}

function failure({ status, why }: ProviderFailure, { model }: ProviderRequest) {
  if (why === 'context') return { message: 'the input length exceeds the context length' }
  if (why) return { message: `${why} is no failure of this server` }
  const said: Readonly<Record<number, string>> = {
    401: 'unauthorized',
    404: `model '${model}' not found`,
    500: 'llama runner process has terminated',
    503: 'server busy, please try again. maximum pending requests exceeded',
  }
  return { message: said[status] ?? `Status ${status}` }
}
