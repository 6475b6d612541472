import { WireModel, type OfferSettings } from '#core/models'
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
export class ChatModel extends WireModel {
  /** Opens nothing: the first request connects. */
  constructor(options: ChatOptions) {
    const { id, name, apiKey: secret, row, settings, maxAnswer } = options
    const requests = new ChatRequests(name, row)
    super({
      ...{ id, name, settings, secret, maxAnswer },
      url: addressOf(options, '/chat/completions'),
      headers: headersOf(options),
      variables: { key: row.key, address: row.base },
      reads: row.reads,
      can: { object: !row.withoutSchemas },
      wire: () => ({
        body: (request, changes) => requests.body(request, changes),
        reader: (asked) => new ChunkReader(asked, row.reasoning),
        change: changeOf,
      }),
    })
  }
}
