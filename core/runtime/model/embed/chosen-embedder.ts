import { RuntimeError } from '../../../errors.ts'
import { didYouMean } from '../../../manifest/did-you-mean.ts'
import type { EnvSource } from '../../../manifest/env.ts'
import type { Embedder, ModelPrice, PricedModel } from '../../../plugin.ts'
import { isActive, type PluginRecord } from '../../base/plugin-record.ts'
import { nameFault, providersOf, splitName, type Providers } from '../named-model.ts'
import { noPrice } from '../opened-later.ts'
import { SettingsOfModels, type SettingsByPattern } from '../settings.ts'
import { LexicalEmbedder } from './lexical.ts'

/** What makes vectors where EMBEDDING_MODEL says nothing. */
const lexical = 'lexical'
const variable = 'EMBEDDING_MODEL'

/** What the embedder is chosen from. */
export interface EmbedderChoice {
  readonly config: { readonly EMBEDDING_MODEL?: string; readonly MODEL_SETTINGS?: string }
  readonly settings: SettingsByPattern | undefined
  readonly source: EnvSource
  readonly records: readonly PluginRecord[]
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
}

/** What makes vectors of texts, as EMBEDDING_MODEL names it: with faults, the app does not start. */
export class ChosenEmbedder {
  readonly id: string
  readonly faults: readonly RuntimeError[]
  /** Values that the log masks: the key that the settings name. */
  readonly secrets: readonly string[]
  readonly #choice: EmbedderChoice
  readonly #settings: ReturnType<SettingsOfModels['of']>
  #opening: Promise<Embedder> | undefined

  constructor(choice: EmbedderChoice) {
    const { config, settings, source } = choice
    this.#choice = choice
    this.id = config.EMBEDDING_MODEL?.trim() || lexical
    // The faults of the settings themselves are told by whoever chooses the models that answer.
    this.#settings = new SettingsOfModels(settings, config.MODEL_SETTINGS).of([this.id])
    this.faults = this.#isLate ? [] : this.#nameFaults()
    const { keyFrom } = this.#settings
    const key = keyFrom === undefined ? undefined : source[keyFrom]
    this.secrets = key ? [key] : []
  }

  /** The faults of a name that could not be checked before every plugin was set up. */
  late(): readonly RuntimeError[] {
    return this.#isLate ? this.#nameFaults() : []
  }

  /** The line of the boot report. */
  get line(): string {
    return this.id === lexical
      ? `embeddings: ${lexical}, which finds what is written alike, and no other words for it`
      : `embeddings: ${this.id}`
  }

  /** What vectors cost, as far as it is known: the lexical embedder asks nobody. */
  get price(): ModelPrice | undefined {
    const isFree =
      this.id === lexical || this.#providers.get(splitName(this.id).provider)?.provider.free
    return this.#settings.price ?? (isFree ? noPrice : undefined)
  }

  /** The price as plugins see it, for a model that is asked. */
  get priced(): readonly PricedModel[] {
    if (this.id === lexical) return []
    return [{ id: this.id, ...(this.price && { price: this.price }) }]
  }

  /** Opens the embedder, once for all calls. An opening that failed is tried again with the next call. */
  async opened(): Promise<Embedder> {
    return await (this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined
      if (error instanceof RuntimeError) throw error
      throw new RuntimeError(
        'MODEL_UNUSABLE',
        `The embedding model "${this.id}" cannot be opened.`,
        {
          hint: 'Whoever runs this server finds the reason in its log.',
          cause: error,
        },
      )
    }))
  }

  /** Has the next call open the embedder anew: variables of its provider have changed. */
  reopen(): void {
    this.#opening = undefined
  }

  async #open(): Promise<Embedder> {
    if (this.id === lexical) return new LexicalEmbedder()
    const { provider: owner, model } = splitName(this.id)
    const brought = this.#providers.get(owner)
    const base = brought?.record.base
    if (!base || !brought.provider.embed)
      throw new RuntimeError('UNAVAILABLE', `The embedding model "${this.id}" is not there yet.`, {
        hint: 'Try again in a moment.',
      })
    const { env, self, fetch, log } = base
    const settings = this.#settings
    const key = settings.keyFrom === undefined ? undefined : this.#choice.source[settings.keyFrom]
    return await brought.provider.embed(model, { env, self, settings, fetch, log, key })
  }

  /** Whether a plugin makes its providers in a function, which runs after the setups. */
  get #isLate(): boolean {
    return this.#choice.records.some(
      (record) => isActive(record) && typeof record.definition.models === 'function',
    )
  }

  get #providers(): Providers {
    return providersOf(this.#choice.records.filter(isActive)).providers
  }

  #nameFaults(): RuntimeError[] {
    if (this.id === lexical) return []
    const providers = this.#providers
    const { envOf, source } = this.#choice
    const { provider: owner } = splitName(this.id)
    const embedding = [...providers].filter(([, { provider }]) => provider.embed)
    const named = embedding.map(([name]) => `${name}/<name>`)
    const choices = `Write ${[lexical, ...named].join(', ')}.`
    const fault = (message: string, hint: string) => [
      new RuntimeError('ENV_INVALID', message, { hint }),
    ]
    const brought = providers.get(owner)
    if (brought && !brought.provider.embed)
      return fault(
        `${variable} names "${this.id}", but ${brought.provider.label} makes no vectors.`,
        choices,
      )
    if (!brought && !this.id.includes('/')) {
      const like = didYouMean(this.id, [lexical, ...embedding.map(([name]) => name)])
      return fault(
        `${variable} is "${this.id}", which makes no vectors.`,
        like ? `Did you mean "${like}"?` : choices,
      )
    }
    const wrong = nameFault(this.id, this.#settings, { providers, envOf, source, variable })
    return wrong ? [wrong] : []
  }
}
