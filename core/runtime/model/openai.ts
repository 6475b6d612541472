import type { Delta, Model, ModelRequest } from '../../plugin.ts'
import { ChunkReader } from './openai-deltas.ts'
import { ChatRequests } from './openai-request.ts'
import { endpoint } from './transport/endpoint.ts'
import { modelTransport, type ModelTransport } from './transport/transport.ts'
import type { CallLimits } from './transport/wire.ts'

/** The model, its endpoint, and how long each step of an answer may take. */
export interface OpenAiOptions extends Partial<CallLimits> {
  /** The model's name at the provider. */
  readonly name: string
  readonly apiKey?: string
  /** Any compatible endpoint: with or without `/v1`, a trailing slash, or `/chat/completions`. */
  readonly baseUrl?: string
  readonly label?: string
  readonly contextWindow?: number
}

/** A model behind any OpenAI-compatible `/chat/completions` endpoint. */
export class OpenAiModel implements Model {
  readonly id: string
  readonly label: string
  readonly contextWindow: number | undefined
  readonly #transport: ModelTransport

  constructor({ name, apiKey, baseUrl, label = name, contextWindow, ...limits }: OpenAiOptions) {
    this.id = `openai/${name}`
    this.label = label
    this.contextWindow = contextWindow
    const requests = new ChatRequests(name)
    this.#transport = modelTransport({
      ...limits,
      model: name,
      url: endpoint(baseUrl ?? 'https://api.openai.com/v1', {
        setting: 'OPENAI_BASE_URL',
        key: 'OPENAI_API_KEY',
        version: '/v1',
        path: '/chat/completions',
      }),
      headers: apiKey ? { authorization: `Bearer ${apiKey}` } : {},
      secret: apiKey,
      settings: { key: 'OPENAI_API_KEY', address: 'OPENAI_BASE_URL' },
      wire: {
        body: (request, changes) => requests.body(request, !changes.has('stream_options')),
        reader: (asked) => new ChunkReader(asked),
        change: ({ text }) =>
          text.includes('stream_options') ? ['stream_options', false] : undefined,
      },
    })
  }

  /** Gives the deltas of one answer, one by one. */
  stream(request: ModelRequest): AsyncGenerator<Delta> {
    return this.#transport.stream(request)
  }

  /** Gives the deltas of one answer to `take`, without a promise for each. */
  streamTo(request: ModelRequest, take: (delta: Delta) => void): Promise<void> {
    return this.#transport.streamTo(request, take)
  }
}
