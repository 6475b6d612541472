import { RuntimeError } from '../../errors.ts'
import { fieldsIn } from '../base/fields.ts'
import { modelFault } from './transport/model-fault.ts'
import type {
  Delta,
  EarlyEnd,
  Message,
  MessagePart,
  Model,
  ModelRequest,
  ToolSpec,
} from '../../plugin.ts'
import { callName, callSlots, type CallPiece } from './transport/call-slots.ts'
import { functionTool } from './function-tool.ts'
import { LangChainCounts } from './usage/langchain-counts.ts'
import { joinNeighbours } from './transport/neighbours.ts'
import { Patience } from './sdk/patience.ts'
import { providerFault, type Asked } from './transport/provider-fault.ts'

/**
 * What the runtime needs of a LangChain chat model. The runtime knows such a model by its shape, because an app may have
 * another copy of @langchain/core than the runtime.
 */
export interface LangChainChatModel {
  invoke(...args: never[]): unknown
  stream(messages: never, options?: never): Promise<AsyncIterable<unknown>>
  bindTools?(tools: never[]): unknown
  _llmType?(): string
  readonly model?: unknown
  readonly modelName?: unknown
  readonly profile?: unknown
}

interface LangChainOptions {
  /** The longest wait for a piece of the answer, the first one included. */
  readonly idleMs?: number
  /** The most characters of one answer. */
  readonly maxAnswer?: number
}

/** The fields of a chunk that `deltas` reads. A foreign library makes the chunk, so `deltas` checks each field. */
interface Chunk {
  readonly content?: unknown
  readonly tool_call_chunks?: readonly CallPiece[]
  readonly tool_calls?: readonly CallPiece[]
  readonly usage_metadata?: unknown
  readonly additional_kwargs?: { readonly reasoning_content?: unknown }
  readonly response_metadata?: unknown
  /** Joins the next chunk to this one. */
  concat?(next: Chunk): Chunk
}

/** Whether a value is a chat model of LangChain, and not a `Model` of the runtime. */
export function isLangChainModel(value: unknown): value is LangChainChatModel {
  const { invoke, stream } = fieldsIn(value)
  return typeof invoke === 'function' && typeof stream === 'function'
}

/** Any chat model of LangChain as a model of ours. Its own retries and time limits stay as they are. */
export class LangChainModel implements Model {
  readonly id: string
  readonly label: string
  readonly contextWindow: number | undefined
  readonly reads: Model['reads']
  readonly #chat: LangChainChatModel
  readonly #idleMs: number
  readonly #maxAnswer: number
  readonly #asked: Asked

  constructor(
    chat: LangChainChatModel,
    { idleMs = 300_000, maxAnswer = 16 * 1024 * 1024 }: LangChainOptions = {},
  ) {
    const name = nameOf(chat)
    if (typeof chat.bindTools !== 'function')
      throw new RuntimeError('MODEL_UNUSABLE', `The chat model "${name}" cannot call tools.`, {
        hint: 'It has no bindTools(). The agent works through tools, so take a model that has it.',
      })
    const window = fieldsIn(chat.profile).maxInputTokens
    this.id = `langchain/${name}`
    this.label = name
    this.contextWindow = typeof window === 'number' ? window : undefined
    this.reads = readsOf(chat)
    this.#chat = chat
    this.#idleMs = idleMs
    this.#maxAnswer = maxAnswer
    this.#asked = {
      model: name,
      host: `The provider of "${name}"`,
      settings: { key: 'the key that the chat model was given', address: 'its name and address' },
    }
  }

  async *stream(request: ModelRequest): AsyncGenerator<Delta> {
    const { signal } = request
    signal.throwIfAborted()
    const calls = callSlots()
    const waiting = new Patience(signal, this.#idleMs, this.label)
    let chunks: AsyncIterator<Chunk> | undefined
    const counts = new LangChainCounts()
    let size = 0
    let isWhole = false
    const all: Chunk[] = []
    try {
      chunks = (await waiting.for(this.#open(request)))[Symbol.asyncIterator]()
      for (;;) {
        const { done, value } = await waiting.for(chunks.next())
        if (done) break
        if (value.usage_metadata) counts.add(value.usage_metadata, value.additional_kwargs)
        all.push(value)
        for (const delta of deltas(value, calls)) {
          size +=
            'text' in delta
              ? delta.text.length
              : (delta.name?.length ?? 0) + (delta.args?.length ?? 0)
          yield delta
        }
        if (size > this.#maxAnswer)
          throw new RuntimeError(
            'MODEL_ANSWER_TOO_LONG',
            `The answer of "${this.label}" went past ${this.#maxAnswer} characters.`,
          )
      }
      isWhole = true
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof RuntimeError ? error : faultOf(error, this.#asked, size > 0)
    } finally {
      waiting.end()
      // Nothing waits for the end of the iterator: a model that ignores its signal might never end it.
      if (!isWhole) void Promise.resolve(chunks?.return?.()).catch(() => {})
    }
    const usage = counts.usage()
    const data = ownData(all)
    // Some chat models take a page of a proxy for an answer without a word.
    if (size === 0 && !usage && !data)
      throw modelFault('MODEL_ANSWER_INVALID', this.#asked.host, 'answered nothing.')
    const by = endIn(all)
    if (by) yield { type: 'ended', by }
    if (usage) yield { type: 'usage', ...usage }
    if (data) yield { type: 'provider', data }
  }

  async #open(request: ModelRequest) {
    const { tools, signal } = request
    const chat = this.#chat
    // The parameters are `never` above so that every version's model fits; these are what all take.
    const bound = (
      tools.length > 0 ? chat.bindTools?.(tools.map(functionTool) as never[]) : chat
    ) as {
      stream(messages: unknown, options: object): Promise<AsyncIterable<Chunk>>
    }
    return await bound.stream(await foreignMessages(request), { signal })
  }
}

/** Why a chat model says that an answer ended early, in the words of the providers. */
const earlyEnds: ReadonlyMap<unknown, EarlyEnd> = new Map([
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['MAX_TOKENS', 'length'],
  ['content_filter', 'content_filter'],
  ['refusal', 'content_filter'],
  ['SAFETY', 'content_filter'],
])

/** Why an answer ended early, by the last chunk that names an end. */
function endIn(chunks: readonly Chunk[]): EarlyEnd | undefined {
  for (const { response_metadata, additional_kwargs } of chunks.toReversed()) {
    const told = { ...fieldsIn(additional_kwargs), ...fieldsIn(response_metadata) }
    const end = told.finish_reason ?? told.stop_reason ?? told.finishReason ?? told.done_reason
    if (end) return earlyEnds.get(end)
  }
  return undefined
}

type Speech = Exclude<Delta, { type: 'usage' | 'provider' | 'ended' }>

function* deltas(chunk: Chunk, calls: ReturnType<typeof callSlots>): Generator<Speech> {
  const thought = chunk.additional_kwargs?.reasoning_content
  if (typeof thought === 'string' && thought) yield { type: 'reasoning', text: thought }
  const blocks = typeof chunk.content === 'string' ? [{ text: chunk.content }] : chunk.content
  if (Array.isArray(blocks)) {
    for (const block of blocks) {
      const reasoning = block?.thinking ?? block?.reasoning
      if (typeof reasoning === 'string' && reasoning) yield { type: 'reasoning', text: reasoning }
      if (typeof block?.text === 'string' && block.text) yield { type: 'text', text: block.text }
    }
  }
  // A model that does not stream gives its calls whole, in `tool_calls`.
  const pieces = chunk.tool_call_chunks?.length ? chunk.tool_call_chunks : (chunk.tool_calls ?? [])
  for (const piece of pieces) {
    const delta = calls(piece)
    if (delta) yield delta
  }
}

/** What the chat model wants back: the parts of its own message that no message of ours has, and its ids of the calls. */
interface OwnData {
  readonly content?: unknown
  readonly additional_kwargs?: unknown
  readonly response_metadata?: unknown
  readonly ids?: readonly unknown[]
}

/** The own data of an answer; undefined where its text and its calls say everything, or its chunks cannot be joined. */
function ownData(chunks: readonly Chunk[]): OwnData | undefined {
  if (chunks.every(isPlain)) return undefined
  const [first, ...rest] = chunks
  let whole = first
  for (const chunk of rest) whole = whole?.concat?.(chunk)
  if (!whole) return undefined
  const { content, additional_kwargs, response_metadata } = whole
  const ids = whole.tool_calls?.map(({ id }) => id) ?? []
  // Ids that repeat tell no results apart; the calls then have ours.
  const areIds = ids.every((id, at) => typeof id === 'string' && ids.indexOf(id) === at)
  return {
    ...{ content: withoutUnsigned(content), additional_kwargs, response_metadata },
    ...(areIds && { ids }),
  }
}

/** The content without thoughts that lost their signature: their provider refuses them when they come back. */
function withoutUnsigned(content: unknown): unknown {
  if (!Array.isArray(content)) return content
  return content.filter((block) => {
    const { type, signature } = fieldsIn(block)
    return type !== 'thinking' || (typeof signature === 'string' && signature !== '')
  })
}

function isPlain({ content, additional_kwargs: more }: Chunk): boolean {
  return (
    (content === undefined || typeof content === 'string') && Object.keys(more ?? {}).length === 0
  )
}

/** The messages as LangChain's. It imports LangChain at the first turn, because loading it takes longer than the whole start. */
async function foreignMessages(request: ModelRequest): Promise<unknown[]> {
  const { AIMessage, HumanMessage, SystemMessage, ToolMessage } =
    await import('@langchain/core/messages')
  /** The chat model's own ids of calls, by ours: its data names the calls by them. */
  const ids = new Map<string, string>()
  const all: unknown[] = []
  /** What follows the results of a step: not every provider takes pictures in results. */
  let after: Block[] = []
  const follow = () => {
    if (after.length > 0) all.push(new HumanMessage({ content: after }))
    after = []
  }
  for (const message of joinNeighbours(request.messages)) {
    const { content } = message
    if (message.role !== 'tool') follow()
    switch (message.role) {
      case 'system':
        all.push(new SystemMessage(content))
        break
      case 'user': {
        const blocks = await blocksOf(message.parts, request)
        const text = content ? [{ type: 'text', text: content }] : []
        all.push(
          blocks.length > 0
            ? new HumanMessage({ content: [...text, ...blocks] })
            : new HumanMessage(content),
        )
        break
      }
      case 'tool': {
        const { name, toolCallId, failed } = message
        const tool_call_id = ids.get(toolCallId) ?? toolCallId
        all.push(
          new ToolMessage({ content, tool_call_id, name, status: failed ? 'error' : 'success' }),
        )
        const blocks = await blocksOf(message.parts, request)
        const text = `What the call ${tool_call_id} of "${name}" returned beside its text:`
        if (blocks.length > 0) after.push({ type: 'text', text }, ...blocks)
        break
      }
      case 'assistant': {
        const { ids: own, ...data } = fieldsIn(message.provider?.data)
        for (const [at, { id }] of (message.toolCalls ?? []).entries())
          if (Array.isArray(own) && typeof own[at] === 'string') ids.set(id, own[at])
        const tool_calls = message.toolCalls?.map(({ id, name, args }) => ({
          id: ids.get(id) ?? id,
          name: callName(name),
          type: 'tool_call' as const,
          args: fieldsIn(args),
        }))
        all.push(new AIMessage({ content, ...data, tool_calls }))
      }
    }
  }
  follow()
  return all
}

/** A piece of a message's content. */
type Block = Record<string, unknown> & { readonly type: string }

/** Pictures in the form that chat models of every version take, sounds and files in LangChain's own since version 1. */
function blocksOf(
  parts: readonly MessagePart[] = [],
  { file }: ModelRequest,
): Promise<readonly Block[]> {
  return Promise.all(
    parts.map(async ({ type, mediaType, name, file: id }) => {
      if (!file) return { type: 'text', text: `[${type} "${name ?? mediaType}" is not there]` }
      const data = Buffer.from(await file(id)).toString('base64')
      return type === 'image'
        ? { type: 'image_url', image_url: { url: `data:${mediaType};base64,${data}` } }
        : { type, mimeType: mediaType, data, metadata: { filename: name ?? type } }
    }),
  )
}

/** What a chat model reads beside text, where its profile says so. */
function readsOf({ profile }: LangChainChatModel): Model['reads'] {
  const { imageInputs, audioInputs, pdfInputs } = fieldsIn(profile)
  return {
    ...(imageInputs === true && { image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] }),
    ...(audioInputs === true && { audio: ['audio/wav', 'audio/mpeg'] }),
    ...(pdfInputs === true && { file: ['application/pdf'] }),
  }
}

/** What clients say of a connection that ended too early. */
const brokenOff = /^(terminated|aborted|premature close|socket hang up|other side closed)\b/i

/** What went wrong at a chat model, by a code; `isAmid` is true where the model had said something by then. */
function faultOf(error: unknown, asked: Asked, isAmid: boolean): RuntimeError {
  const { name, message, status, code, type, lc_error_code, response, headers } = (error ??
    {}) as Record<string, any> // any: an error of whatever client the chat model uses
  const kind = `${name} ${code}`
  // The cause has the message alone: some clients attach the whole request to their error, with the key in its headers.
  const cause = new Error(`${name}: ${message}`)
  if (/Timeout/i.test(kind))
    return modelFault('MODEL_TIMEOUT', asked.host, `took too long to answer.`, { cause })
  if (isAmid && (/ECONNRESET|UND_ERR|APIConnection/.test(kind) || brokenOff.test(String(message))))
    return modelFault('MODEL_STREAM_BROKEN', asked.host, 'broke off in the middle of its answer.', {
      cause,
    })
  if (/APIConnection|ECONN|ENOTFOUND|EAI_AGAIN/.test(kind) || message === 'fetch failed')
    return modelFault('MODEL_UNREACHABLE', asked.host, `cannot be reached.`, { cause })
  return providerFault(
    {
      status: Number(status ?? response?.status) || undefined,
      headers: headers && typeof headers.get !== 'function' ? headers : undefined,
      text: JSON.stringify({ error: { code, type: `${type} ${lc_error_code} ${name}`, message } }),
    },
    asked,
  )
}

function nameOf(chat: LangChainChatModel): string {
  for (const name of [chat.model, chat.modelName, chat._llmType?.()])
    if (typeof name === 'string' && name) return name
  return 'chat model'
}
