import { WireModel, type CallLimits, type Model } from '#core/models'
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
export class OllamaModel extends WireModel {
  /** A model of which the server has said what it can do; `open` asks for it. */
  constructor(options: OllamaOptions, about: About) {
    const { id, name, host, apiKey, headers, contextWindow, reads, ...limits } = options
    const { capabilities } = about
    const window = windowOf(about, contextWindow)
    const thinks = capabilities?.includes('thinking')
    const requests = new OllamaRequests({ model: name, window, thinks })
    super({
      ...{ ...limits, id, name, secret: apiKey, variables: settingNames },
      url: addressOf({ host }, '/api/chat'),
      headers: { ...headersOf({ apiKey }), ...headers },
      contextWindow: window,
      reads: reads ?? readsOf(about),
      can: { tools: capabilities?.includes('tools') ?? true, object: true },
      framing: 'lines',
      wire: () => ({
        body: (request, changes) => requests.body(request, changes),
        reader: () => new LineReader(),
        change: changeOf,
      }),
    })
  }

  /** Asks the server about the model, and makes it. */
  static async open(
    options: OllamaOptions,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<OllamaModel> {
    return new OllamaModel(options, await aboutModel(options.name, options, signal))
  }
}
