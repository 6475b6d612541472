import {
  modelTransport,
  type CallLimits,
  type Delta,
  type Model,
  type ModelRequest,
  type ModelTransport,
} from '#core/models'
import { aboutModel, readsOf, windowOf, type About } from './about.ts'
import { addressOf, headersOf, settingNames, type Access } from './address.ts'
import { changeOf } from './changes.ts'
import { LineReader } from './reader.ts'
import { OllamaRequests } from './requests.ts'

/** A model of a server, and how the operator set it. */
export interface OllamaOptions extends Access, Partial<CallLimits> {
  /** What MODEL calls the model. */
  readonly id: string
  /** The model's name at the server. */
  readonly name: string
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How many tokens to read, in place of the usual number. */
  readonly contextWindow?: number
  /** What the model reads beside text, in place of what the server says. */
  readonly reads?: Model['reads']
}

/** A model behind `/api/chat`. */
export class OllamaModel implements Model {
  readonly id: string
  readonly label: string
  readonly origin: string
  readonly contextWindow: number
  readonly reads: Model['reads']
  readonly can: Model['can']
  readonly #transport: ModelTransport

  /** A model of which the server has said what it can do; `open` asks for it. */
  constructor(options: OllamaOptions, about: About) {
    const { id, name, host, apiKey, headers, contextWindow, reads, ...limits } = options
    const { capabilities } = about
    const url = addressOf({ host }, '/api/chat')
    this.id = id
    this.label = name
    this.origin = `${id} at ${url.host}`
    this.contextWindow = windowOf(about, contextWindow)
    this.reads = reads ?? readsOf(about)
    this.can = { tools: capabilities?.includes('tools') ?? true, object: true }
    const requests = new OllamaRequests({
      model: name,
      window: this.contextWindow,
      thinks: capabilities?.includes('thinking'),
    })
    this.#transport = modelTransport({
      ...limits,
      model: name,
      url,
      headers: { ...headersOf({ apiKey }), ...headers },
      secret: apiKey,
      settings: settingNames,
      framing: 'lines',
      wire: {
        body: (request, changes) => requests.body(request, changes),
        reader: () => new LineReader(),
        change: changeOf,
      },
    })
  }

  /** Asks the server about the model, and makes it. */
  static async open(
    options: OllamaOptions,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<OllamaModel> {
    return new OllamaModel(options, await aboutModel(options.name, options, signal))
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
