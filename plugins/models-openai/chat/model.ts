import {
  modelTransport,
  type Delta,
  type Model,
  type ModelRequest,
  type ModelTransport,
  type OfferSettings,
} from '#core/models'
import { addressOf, headersOf, type Access } from './address.ts'
import { changeOf } from './changes.ts'
import { ChunkReader } from './reader.ts'
import { ChatRequests } from './requests.ts'

/** A model behind chat completions, and how the operator set it. */
export interface ChatOptions extends Access {
  /** What MODEL calls the model. */
  readonly id: string
  /** The model's name at the provider. */
  readonly name: string
  readonly settings?: OfferSettings
  /** The most characters of one answer. */
  readonly maxAnswer?: number
}

/** A model behind any compatible `/chat/completions` endpoint. */
export class ChatModel implements Model {
  readonly id: string
  readonly label: string
  readonly origin: string
  readonly reads: Model['reads']
  readonly can: Model['can']
  readonly #transport: ModelTransport

  constructor(options: ChatOptions) {
    const { id, name, apiKey, row, settings = {}, maxAnswer } = options
    const { attempts, connectMs, firstTokenMs, idleMs, stallMs, headers } = settings
    const url = addressOf(options, '/chat/completions')
    const requests = new ChatRequests(name, row)
    this.id = id
    this.label = name
    this.origin = `${id} at ${url.host}`
    this.reads = settings.reads ?? row.reads
    this.can = { object: !row.withoutSchemas }
    this.#transport = modelTransport({
      model: name,
      url,
      headers: { ...headersOf(options), ...headers },
      secret: apiKey,
      settings: { key: settings.keyFrom ?? row.key, address: row.base },
      ...{ attempts, connectMs, firstTokenMs, idleMs, stallMs, maxAnswer },
      wire: {
        body: (request, changes) => requests.body(request, changes),
        reader: (asked) => new ChunkReader(asked, row.reasoning),
        change: changeOf,
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
