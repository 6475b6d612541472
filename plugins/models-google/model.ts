import {
  modelTransport,
  type Delta,
  type Model,
  type ModelRequest,
  type ModelTransport,
  type OfferSettings,
} from '#core/models'
import { addressOf, headersOf, resourceOf, type Access } from './access.ts'
import { variables } from './names.ts'
import { changeOf } from './changes.ts'
import { ChunkReader } from './reader.ts'
import { GenerateRequests } from './requests.ts'

/** A model behind generateContent, and how the operator set it. */
export interface GenerateOptions extends Access {
  /** What MODEL calls the model. */
  readonly id: string
  /** The model's name at the provider. */
  readonly name: string
  readonly settings?: OfferSettings
  /** The most characters of one answer. */
  readonly maxAnswer?: number
}

/** What the models of the maker read, unless the settings say otherwise. */
const usualReads: Model['reads'] = {
  image: ['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif'],
  audio: [
    'audio/wav',
    'audio/mpeg',
    'audio/mp3',
    'audio/aiff',
    'audio/aac',
    'audio/ogg',
    'audio/flac',
  ],
  file: ['application/pdf'],
}
/** How many tokens the language models of the maker read at least. */
const usualWindow = 1_048_576

/** A model behind any `:streamGenerateContent` endpoint. */
export class GenerateModel implements Model {
  readonly id: string
  readonly label: string
  readonly origin: string
  readonly contextWindow: number | undefined
  readonly reads: Model['reads']
  readonly can = { object: true }
  readonly #transport: ModelTransport

  constructor(options: GenerateOptions) {
    const { id, name, apiKey, settings = {}, maxAnswer } = options
    const { attempts, connectMs, firstTokenMs, idleMs, stallMs, headers } = settings
    const url = addressOf(options, `/${resourceOf(name)}:streamGenerateContent`)
    // Without it the provider answers with one list at the end.
    url.searchParams.set('alt', 'sse')
    this.id = id
    this.label = name
    this.origin = `${id} at ${url.host}`
    // Models that draw or speak read far less.
    const isUsual = /^gemini-(?!.*(image|tts|audio))/.test(name)
    this.contextWindow = isUsual ? usualWindow : undefined
    this.reads = settings.reads ?? usualReads
    const requests = new GenerateRequests(name, this.origin)
    this.#transport = modelTransport({
      model: name,
      url,
      headers: { ...headersOf(options), ...headers },
      secret: apiKey,
      settings: { ...variables, key: settings.keyFrom ?? variables.key },
      ...{ attempts, connectMs, firstTokenMs, idleMs, stallMs, maxAnswer },
      wire: {
        body: (request, changes) => requests.body(request, changes),
        reader: (asked) => new ChunkReader(asked),
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
