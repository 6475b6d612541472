import type {
  AskableModel,
  Embedded,
  EmbedOptions,
  Log,
  ModelCall,
  OfferedModels,
} from '../../../plugin.ts'
import type { ModelScope, ModelsWithin } from '../../base/plugin-record.ts'
import type { Models } from '../choose.ts'
import type { Embedding } from '../embed/embedding.ts'
import type { AskedFor } from './ask-aside.ts'
import { AskedModel, type Asker, type AskedBy } from './asked-model.ts'

/** What the models of an app are made of. */
export interface AppModelsOptions {
  readonly models: Models
  readonly embedding: Pick<Embedding, 'embed'>
  readonly log: Log
  /** Told of each call that a plugin has made, once, when the call has ended in whatever way. */
  readonly tell?: (call: ModelCall) => void
}

/** The models of the app, as plugins ask them beside the loop of a turn. All that they cost is told in one place. */
export class AppModels {
  readonly #options: AppModelsOptions

  constructor(options: AppModelsOptions) {
    this.#options = options
  }

  /** The models for the handlers of one plugin. */
  of(plugin: string): ModelsWithin {
    return (scope) => {
      const models = new PluginModels(this.#options, plugin, scope)
      return { models, model: models.get() }
    }
  }
}

class PluginModels implements OfferedModels, AskedBy {
  readonly #options: AppModelsOptions
  readonly #plugin: string
  readonly #scope: ModelScope

  constructor(options: AppModelsOptions, plugin: string, scope: ModelScope) {
    this.#options = options
    this.#plugin = plugin
    this.#scope = scope
  }

  get(id?: string): AskableModel {
    if (!id) return this.#usual()
    const model = this.#options.models.get(id)
    return new AskedModel({ main: () => model, small: () => model }, this)
  }

  async embed(texts: readonly string[], options: EmbedOptions): Promise<Embedded> {
    return await this.#options.embedding.embed(texts, options, this.asker)
  }

  /** The model of the turn, or the default one. */
  #usual(): AskableModel {
    const { models } = this.#options
    const main = () => this.#scope.model ?? models.default
    return new AskedModel({ main, small: () => models.small ?? main() }, this)
  }

  /** Made when somebody asks: every request of a route has models, and few ask them. */
  get asker(): Asker {
    const { tell, log } = this.#options
    const { did, runId, sessionId, signal, asked, tell: tellTurn } = this.#scope
    const whom: AskedFor = {
      kind: 'plugin',
      plugin: this.#plugin,
      ...(did !== undefined && { did }),
      ...(runId !== undefined && { runId }),
      ...(sessionId !== undefined && { sessionId }),
    }
    return {
      for: whom,
      ...(signal && { signal }),
      ...(asked && { asked }),
      log,
      tell(call) {
        tell?.(call)
        tellTurn?.(call)
      },
    }
  }
}
