import {
  modelTransport,
  type Delta,
  type Model,
  type ModelRequest,
  type ModelTransport,
  type OfferSettings,
} from '#core/models'
import { addressOf, headersOf, type Access } from './access.ts'
import { variables } from './names.ts'
import { changeOf } from './changes.ts'
import { EventReader } from './reader.ts'
import { MessagesRequests } from './requests.ts'

/** A model behind Messages, and how the operator set it. */
export interface MessagesOptions extends Access {
  /** What MODEL calls the model. */
  readonly id: string
  /** The model's name at the provider. */
  readonly name: string
  readonly settings?: OfferSettings
  /** The most characters of one answer. */
  readonly maxAnswer?: number
}

/** What every model of the maker reads, unless the settings say otherwise. */
const usualReads: Model['reads'] = {
  image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'],
  file: ['application/pdf'],
}
/** How many tokens every model of the maker reads at least. */
const usualWindow = 200_000

/** A model behind any `/v1/messages` endpoint. */
export class MessagesModel implements Model {
  readonly id: string
  readonly label: string
  readonly origin: string
  readonly contextWindow: number | undefined
  readonly reads: Model['reads']
  readonly can = { object: true }
  readonly #transport: ModelTransport

  constructor(options: MessagesOptions) {
    const { id, name, apiKey, settings = {}, maxAnswer } = options
    const { attempts, connectMs, firstTokenMs, idleMs, stallMs, headers } = settings
    const url = addressOf(options, '/messages')
    this.id = id
    this.label = name
    this.origin = `${id} at ${url.host}`
    this.contextWindow = name.startsWith('claude-') ? usualWindow : undefined
    this.reads = settings.reads ?? usualReads
    const requests = new MessagesRequests(name, this.origin)
    this.#transport = modelTransport({
      model: name,
      url,
      headers: { ...headersOf(options), ...headers },
      secret: apiKey,
      settings: { ...variables, key: settings.keyFrom ?? variables.key },
      ...{ attempts, connectMs, firstTokenMs, idleMs, stallMs, maxAnswer },
      wire: {
        body: (request, changes) => requests.body(request, changes),
        reader: (asked) => new EventReader(asked),
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
