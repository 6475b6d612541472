import type { Delta, Model, ModelRequest, OfferSettings } from '../plugin.ts'
import type { AnswerFraming } from '../runtime/model/transport/answer.ts'
import type { Asked } from '../runtime/model/transport/provider-fault.ts'
import { modelTransport, type ModelTransport } from '../runtime/model/transport/transport.ts'
import type { CallLimits, Wire } from '../runtime/model/transport/wire.ts'

/** A model behind a wire, and how the operator set it. */
export interface WireModelOptions extends Partial<CallLimits> {
  /** What MODEL calls the model. */
  readonly id: string
  /** The model's name at the provider. */
  readonly name: string
  /** What the operator set: limits, headers, `keyFrom`, `reads` and the window are taken from it. */
  readonly settings?: OfferSettings
  /** The address of every request. */
  readonly url: URL
  /** The headers of every request, with the key where the provider wants it. */
  readonly headers?: Readonly<Record<string, string>>
  /** The key, which is taken out of everything that is kept of a provider's words. */
  readonly secret?: string
  /** The names of the variables that hold the key and the address, for the sentences of errors. */
  readonly variables: Asked['settings']
  readonly framing?: AnswerFraming
  /** Whom the model's own data belong to; by default the id and the host. */
  readonly origin?: string
  readonly contextWindow?: number | undefined
  readonly reads?: Model['reads']
  readonly can?: Model['can']
  /** Makes the language of the provider; `origin` is whose data goes back as it came. */
  wire(origin: string): Wire
}

/** A model that is asked by a wire: a provider writes the wire, and has the rest from here. */
export class WireModel implements Model {
  readonly id: string
  readonly label: string
  readonly origin: string
  readonly contextWindow: number | undefined
  readonly reads: Model['reads']
  readonly can: Model['can']
  readonly #transport: ModelTransport

  /** Opens nothing: the first request connects. */
  constructor(options: WireModelOptions) {
    const { id, name, settings = {}, url, headers, secret, variables, framing, ...rest } = options
    const { origin = `${id} at ${url.host}`, contextWindow, reads, can, wire, ...given } = rest
    const { attempts, connectMs, firstTokenMs, idleMs, stallMs, keyFrom } = settings
    this.id = id
    this.label = name
    this.origin = origin
    this.contextWindow = contextWindow
    this.reads = settings.reads ?? reads
    this.can = can
    this.#transport = modelTransport({
      ...{ attempts, connectMs, firstTokenMs, idleMs, stallMs },
      ...given,
      ...{ model: name, url, secret, framing },
      headers: { ...headers, ...settings.headers },
      settings: { ...variables, key: keyFrom ?? variables.key },
      wire: wire(origin),
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
