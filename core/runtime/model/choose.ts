import { RuntimeError } from '../../errors.ts'
import type { EnvSource } from '../../manifest/env.ts'
import type { Model } from '../../plugin.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import { Chain } from './chain.ts'
import { asModel, isList, type GivenModel } from './given.ts'
import { nameFault, openNamed, providersOf, splitName, type NameContext } from './named-model.ts'
import { readOffers, type Offer } from './offers.ts'
import { OpenedLater } from './opened-later.ts'
import { Rests } from './rests.ts'
import { SettingsOfModels, type SettingsByPattern } from './settings.ts'

/** The models that a turn can choose from. */
export interface Models {
  readonly default: Model
  readonly all: readonly Model[]
  /** The model of summaries and of answers in JSON; undefined where the turn's own model makes them. */
  readonly small?: Model
  /** The model of an id, or of the part after the slash; without an id the default. Throws MODEL_UNKNOWN, which lists the ids. */
  get(id?: string): Model
  /** Whether a model of this id is offered. */
  has(id: string): boolean
}

/** What models are chosen from. */
export interface ModelChoice {
  readonly given: GivenModel | readonly GivenModel[] | undefined
  readonly settings: SettingsByPattern | undefined
  readonly config: {
    readonly MODEL?: string
    readonly MODEL_SMALL?: string
    readonly MODEL_SETTINGS?: string
    readonly MODEL_CONTEXT_WINDOW?: number
    readonly EMBEDDING_MODEL?: string
  }
  readonly source: EnvSource
  readonly records: readonly PluginRecord[]
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
  /** The time in milliseconds, for models that rest. */
  readonly now?: () => number
}

/** The models of an app as they were chosen at boot: with faults, the app does not start. */
export class ChosenModels {
  readonly faults: readonly RuntimeError[]
  /** Sentences for the log: settings of no model, and which provider could answer. */
  readonly warnings: readonly string[]
  readonly notes: readonly string[]
  /** Values that the log masks: the keys that settings name. */
  readonly secrets: readonly string[]
  readonly models: Offered
  readonly #choice: ModelChoice
  readonly #settings: SettingsOfModels
  readonly #rests: Rests
  readonly #opened = new Map<string, OpenedLater>()

  constructor(choice: ModelChoice) {
    this.#choice = choice
    const { config, records } = choice
    this.#settings = new SettingsOfModels(choice.settings, config.MODEL_SETTINGS)
    this.#rests = new Rests(choice.now)
    const faults = [...this.#settings.faults]
    const all = this.#given(faults) ?? this.#named(faults)
    const small = this.#small(all, faults)
    if (!this.#isLate) faults.push(...this.#nameFaults())
    faults.push(...providersOf(records.filter(isActive)).faults)
    this.faults = faults
    const names = [...this.#opened.keys()]
    const { EMBEDDING_MODEL: embedder } = config
    const known = [...all.map(({ id }) => id), ...names, ...(embedder ? [embedder] : [])]
    this.warnings = this.#settings.unmatched(known)
    this.notes = config.MODEL === undefined && choice.given === undefined ? this.#unused() : []
    this.secrets = names.flatMap((name) => {
      const { keyFrom } = this.#opened.get(name)!.settings
      return (keyFrom !== undefined && choice.source[keyFrom]) || []
    })
    this.models = new Offered(all, small)
  }

  /** The faults of names that could not be checked before every plugin was set up. */
  late(): readonly RuntimeError[] {
    if (!this.#isLate) return []
    const faults = [...providersOf(this.#choice.records.filter(isActive)).faults]
    if (this.models.all.length === 0) this.models.all = this.#standIn(faults)
    return [...faults, ...this.#nameFaults()]
  }

  /** Has every model opened anew at its next call: variables of their providers have changed. */
  reopen(): void {
    for (const model of this.#opened.values()) model.reopen()
  }

  /** Whether a plugin makes its providers in a function, which runs after the setups. */
  get #isLate(): boolean {
    return this.#choice.records.some(
      (record) => isActive(record) && typeof record.definition.models === 'function',
    )
  }

  get #context(): Omit<NameContext, 'variable'> {
    const { records, envOf, source } = this.#choice
    const { providers } = providersOf(records.filter(isActive))
    return { providers, envOf, source }
  }

  /** The models that the app was given; undefined where it was given none. */
  #given(faults: RuntimeError[]): Model[] | undefined {
    const { given } = this.#choice
    if (given === undefined || (isList(given) && given.length === 0)) return undefined
    return (isList(given) ? given : [given]).flatMap((each) => {
      try {
        return [this.#withSettings(asModel(each))]
      } catch (error) {
        if (!(error instanceof RuntimeError)) throw error
        faults.push(error)
        return []
      }
    })
  }

  #withSettings(model: Model): Model {
    const settings = this.#settings.of([model.id])
    const { MODEL_CONTEXT_WINDOW: usualWindow } = this.#choice.config
    if (model instanceof Chain) return model
    if (Object.keys(settings).length === 0 && usualWindow === undefined) return model
    return new OpenedLater({
      id: model.id,
      settings,
      usualWindow,
      label: model.label,
      open: () => model,
    })
  }

  #named(faults: RuntimeError[]): Model[] {
    const { MODEL } = this.#choice.config
    if (MODEL === undefined) return this.#standIn(faults)
    const read = readOffers(MODEL)
    faults.push(...read.faults)
    return read.offers.map((offer) => this.#offer(offer))
  }

  /** The model that answers where MODEL says nothing. */
  #standIn(faults: RuntimeError[]): Model[] {
    const found = [...this.#context.providers].find(([, { provider }]) => provider.standIn)
    if (found) return [this.#member(found[0])]
    if (this.#isLate && !this.models) return []
    faults.push(
      new RuntimeError(
        'MODEL_MISSING',
        'No model answers: none is given, and no plugin brings one.',
        {
          hint: 'Give createApp a model, add a plugin that brings models, or set MODEL.',
        },
      ),
    )
    return []
  }

  #offer({ id, names }: Offer): Model {
    const [first = '', ...rest] = names
    const member = this.#member(first, id)
    if (rest.length === 0 && id === first) return member
    return new Chain(id, [member, ...rest.map((name) => this.#member(name, id))], this.#rests)
  }

  /** The model of a name, the same one in every offer that names it. */
  #member(name: string, offer = name): OpenedLater {
    let model = this.#opened.get(name)
    if (!model) {
      const settings = this.#settings.of([name, offer])
      const { MODEL_CONTEXT_WINDOW: usualWindow } = this.#choice.config
      const open = () => openNamed(name, settings, this.#context)
      const { provider: owner, model: ofProvider } = splitName(name)
      const provider = this.#context.providers.get(owner)?.provider
      const label = ofProvider || provider?.label
      const isFree = provider?.free
      model = new OpenedLater({ id: name, settings, label, usualWindow, isFree, open })
      this.#opened.set(name, model)
    }
    return model
  }

  #small(all: readonly Model[], faults: RuntimeError[]): Model | undefined {
    const name = this.#choice.config.MODEL_SMALL?.trim()
    if (!name) return undefined
    const offered = all.find(({ id }) => id === name)
    if (offered) return offered
    const fault = nameFault(name, this.#settings.of([name]), {
      ...this.#context,
      variable: 'MODEL_SMALL',
    })
    if (fault && !this.#isLate) faults.push(fault)
    return fault ? undefined : this.#member(name)
  }

  #nameFaults(): RuntimeError[] {
    const context = { ...this.#context, variable: 'MODEL', unready: this.#unready() }
    return [...this.#opened.values()].flatMap(
      ({ id, settings }) => nameFault(id, settings, context) ?? [],
    )
  }

  /** The plugins whose models are not known, because their setup has not finished. */
  #unready(): string[] {
    return this.#choice.records
      .filter(
        (record) =>
          isActive(record) && typeof record.definition.models === 'function' && !record.models,
      )
      .map(({ name }) => name)
  }

  /** What would answer if MODEL named it: a provider whose variables are set. */
  #unused(): string[] {
    const { envOf } = this.#choice
    return [...this.#context.providers].flatMap(([name, { provider, record }]) => {
      const env = envOf.get(record.name) ?? {}
      const set = (provider.needs ?? []).map((need) =>
        (typeof need === 'string' ? [need] : need).find((one) => env[one]),
      )
      if (set.length === 0 || set.includes(undefined)) return []
      return [`MODEL=${name}/<name> would use ${set.join(' and ')}`]
    })
  }
}

/** The models of an app that has some. */
class Offered implements Models {
  /** The models, the default first. A model that a plugin makes in a function comes once the plugin is set up. */
  all: readonly Model[]
  readonly small: Model | undefined

  constructor(all: readonly Model[], small: Model | undefined) {
    this.all = all
    this.small = small
  }

  get default(): Model {
    const [first] = this.all
    if (first) return first
    throw new RuntimeError('MODEL_MISSING', 'No model answers.')
  }

  has(id: string): boolean {
    return this.#find(id) !== undefined
  }

  get(id?: string): Model {
    if (!id) return this.default
    const found = this.#find(id)
    if (found) return found
    if (id === 'default') return this.default
    const ids = this.all.map((model) => model.id)
    throw new RuntimeError('MODEL_UNKNOWN', `There is no model "${id.slice(0, 100)}".`, {
      hint: `The models are ${ids.join(', ')}.`,
      details: { models: ids },
    })
  }

  #find(id: string): Model | undefined {
    return (
      this.all.find((model) => model.id === id) ??
      this.all.find((model) => model.id.endsWith(`/${id}`))
    )
  }
}
