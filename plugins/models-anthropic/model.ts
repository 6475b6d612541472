import { WireModel, type Model, type OfferSettings } from '#core/models'
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
export class MessagesModel extends WireModel {
  /** Opens nothing: the first request connects. */
  constructor(options: MessagesOptions) {
    const { id, name, apiKey: secret, settings, maxAnswer } = options
    super({
      ...{ id, name, settings, secret, variables, maxAnswer },
      url: addressOf(options, '/messages'),
      headers: headersOf(options),
      contextWindow: name.startsWith('claude-') ? usualWindow : undefined,
      reads: usualReads,
      can: { object: true },
      wire(origin) {
        const requests = new MessagesRequests(name, origin)
        return {
          body: (request, changes) => requests.body(request, changes),
          reader: (asked) => new EventReader(asked),
          change: changeOf,
        }
      },
    })
  }
}
