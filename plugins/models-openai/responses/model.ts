import {
  type Delta,
  type Model,
  type ModelRequest,
  modelTransport,
  type ModelTransport,
  type TransportOptions,
} from '#core/models'
import { changeOf } from './changes.ts'
import { EventReader } from './reader.ts'
import { ResponsesRequests } from './requests.ts'

/** A model behind Responses: where it is asked, with which headers, and how the operator set it. */
export interface ResponsesOptions extends Omit<TransportOptions, 'wire' | 'framing'> {
  /** What MODEL calls the model. */
  readonly id: string
  /** What the model reads beside text. */
  readonly reads?: Model['reads']
}

/** A model behind a `/responses` endpoint, which keeps nothing of the conversation. */
export class ResponsesModel implements Model {
  readonly id: string
  readonly label: string
  readonly origin: string
  readonly reads: Model['reads']
  readonly can = { object: true }
  readonly #transport: ModelTransport

  constructor({ id, reads, ...options }: ResponsesOptions) {
    const requests = new ResponsesRequests(options.model)
    this.id = id
    this.label = options.model
    // Chat completions of the same model keep other data, so the wire belongs to the origin.
    this.origin = `${id} at ${options.url.host}${options.url.pathname}`
    this.reads = reads
    this.#transport = modelTransport({
      ...options,
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
