import { WireModel, type Model, type OfferSettings } from '#core/models'
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
export class GenerateModel extends WireModel {
  /** Opens nothing: the first request connects. */
  constructor(options: GenerateOptions) {
    const { id, name, apiKey: secret, settings, maxAnswer } = options
    const url = addressOf(options, `/${resourceOf(name)}:streamGenerateContent`)
    // Without it the provider answers with one list at the end.
    url.searchParams.set('alt', 'sse')
    super({
      ...{ id, name, settings, url, secret, variables, maxAnswer },
      headers: headersOf(options),
      // Models that draw or speak read far less.
      contextWindow: /^gemini-(?!.*(image|tts|audio))/.test(name) ? usualWindow : undefined,
      reads: usualReads,
      can: { object: true },
      wire(origin) {
        const requests = new GenerateRequests(name, origin)
        return {
          body: (request, changes) => requests.body(request, changes),
          reader: (asked) => new ChunkReader(asked),
          change: changeOf,
        }
      },
    })
  }
}
