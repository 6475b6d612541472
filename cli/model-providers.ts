import type { AnyPlugin, Model, ModelProvider, OfferSettings } from '#core'
import { didYouMean } from '../core/manifest/did-you-mean.ts'
import { kernelEnv } from '../core/manifest/kernel-env.ts'
import { OpenedLater, openedModel } from '../core/runtime/model/opened-later.ts'
import { SettingsOfModels } from '../core/runtime/model/settings.ts'
import { readVariableFiles } from '../core/runtime/variables/from-files.ts'

/** How long a provider may take to list its models. */
const patienceMs = 20_000
/** A shorter value of a variable is a word and no key. */
const leastSecret = 6

const quiet = () => {}
const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }

type Variables = Readonly<Record<string, string | undefined>>

/** A provider of a plugin, with the plugin's own variables. */
interface Known {
  readonly provider: ModelProvider<any, any> // any: each plugin knows the types of its own variables
  readonly env: Variables
}

/** The providers of models that plugins bring, as the command line asks them: without an app. */
export class ModelProviders {
  readonly #known: ReadonlyMap<string, Known>
  readonly #env: Variables
  readonly #settings: SettingsOfModels
  readonly #secrets: Set<string>
  /** What is wrong with the variables and the settings. */
  readonly faults: readonly string[]

  private constructor(plugins: readonly AnyPlugin[], env: Variables, faults: readonly string[]) {
    this.#env = env
    // Where two plugins bring a provider of one name, the first one is meant.
    this.#known = new Map(plugins.toReversed().flatMap((plugin) => providersOf(plugin, env)))
    this.#settings = new SettingsOfModels(undefined, env.MODEL_SETTINGS)
    this.faults = [...faults, ...this.#settings.faults.map(({ message }) => message)]
    this.#secrets = new Set(
      Object.entries(env).flatMap(([name, value]) =>
        value && value.length >= leastSecret && /(KEY|TOKEN|SECRET|PASSWORD)$/.test(name)
          ? [value]
          : [],
      ),
    )
  }

  /** The providers of these plugins; variables may stand in files. */
  static async open(plugins: readonly AnyPlugin[], given: Variables): Promise<ModelProviders> {
    const shapes = [kernelEnv, ...plugins.map(({ definition }) => definition.env ?? {})]
    const { source, faults } = await readVariableFiles(given, shapes)
    return new ModelProviders(
      plugins,
      source,
      faults.map(({ message }) => message),
    )
  }

  get names(): readonly string[] {
    return [...this.#known.keys()].toReversed()
  }

  /** A text in which no key stands, also of packages that no plugin knows. */
  safe(text: string): string {
    let safe = text
    for (const secret of this.#secrets) safe = safe.replaceAll(secret, '[key]')
    return safe
  }

  /** What is meant by a name that no plugin brings; undefined for a name that one does. */
  unknown(name: string): string | undefined {
    if (this.#known.has(name)) return undefined
    return didYouMean(name, this.names) ?? ''
  }

  /** The lines that list the models which one provider's key reaches. */
  async list(name: string): Promise<readonly string[]> {
    const { provider, env } = this.#owner(name)
    if (provider.standIn) return [`${name}: needs no key`]
    if (!provider.list) return [`${name}: cannot list its models`]
    const unset = this.#unsetNeed(name)
    if (unset !== undefined) return [`${name}: ${unset} is not set`]
    try {
      const signal = AbortSignal.timeout(patienceMs)
      const found = await provider.list(signal, { env, self: undefined, fetch, log })
      const lines = found.map((model) => `  ${name}/${model}`)
      return [`${name} (${provider.label}): ${found.length || 'no'} models`, ...lines]
    } catch (error) {
      return [`${name} (${provider.label}): ${wordsOf(error)}`]
    }
  }

  /**
   * Why a model is out of reach; `why` is undefined where it is not. Its address is asked something that costs nothing: the
   * list of models, or, at an address of its own, anything.
   */
  async reach(id: string): Promise<{ readonly why?: string; readonly isAsked: boolean }> {
    const fault = this.faultOf(id)
    if (fault !== undefined) return { why: fault, isAsked: false }
    const { provider, env } = this.#owner(cut(id).name)
    const { baseUrl } = this.#settings.of([id])
    const signal = AbortSignal.timeout(patienceMs)
    try {
      if (baseUrl !== undefined) await (await fetch(baseUrl, { signal })).body?.cancel()
      else if (provider.list && !provider.standIn)
        await provider.list(signal, { env, self: undefined, fetch, log })
      else return { isAsked: false }
      return { isAsked: true }
    } catch (error) {
      return { why: wordsOf(error), isAsked: true }
    }
  }

  /** Why a model cannot be asked; undefined where it can. */
  faultOf(id: string): string | undefined {
    const { name, model } = cut(id)
    const meant = this.unknown(name)
    if (meant !== undefined) {
      const like = meant && ` Did you mean "${meant}${id.slice(name.length)}"?`
      return `"${id}" is of no provider.${like}`
    }
    const { provider, env } = this.#owner(name)
    const settings = this.#settings.of([id])
    if (provider.standIn ? id !== name : model === '')
      return `"${id}" names no model: write ${provider.standIn ? name : `${name}/<name>`}.`
    const unset = this.#unsetFor(name, settings)
    if (unset !== undefined) return `"${id}" needs ${unset}, which is not set.`
    const fault = provider.fault?.(model, { env, settings, key: this.#keyFrom(settings) })
    return fault && `${fault.message} ${fault.hint}`
  }

  /** Opens a model, with what the settings say of it. */
  async openModel(id: string): Promise<Model> {
    const { name, model } = cut(id)
    const { provider, env } = this.#owner(name)
    const settings = this.#settings.of([id])
    const key = this.#keyFrom(settings)
    const opened = new OpenedLater({
      ...{ id, settings },
      open: () => provider.open(model, { env, self: undefined, settings, fetch, log, key }),
    })
    await openedModel(opened)
    return opened
  }

  /** The key that a model is asked with, which may stand in no error. */
  keyOf(id: string): string | undefined {
    const { provider, env } = this.#owner(cut(id).name)
    const key = this.#keyFrom(this.#settings.of([id]))
    if (key) this.#secrets.add(key)
    const ofNeeds = (provider.needs ?? []).flat().map((need) => env[need])
    return key ?? ofNeeds.find((value) => value !== undefined && this.#secrets.has(value))
  }

  #keyFrom({ keyFrom }: OfferSettings): string | undefined {
    return keyFrom === undefined ? undefined : this.#env[keyFrom]
  }

  /** The variable that a model with these settings needs and that is not set. */
  #unsetFor(name: string, settings: OfferSettings): string | undefined {
    const { keyFrom, baseUrl } = settings
    if (keyFrom !== undefined) return this.#env[keyFrom] ? undefined : keyFrom
    return baseUrl === undefined ? this.#unsetNeed(name) : undefined
  }

  /** A variable that a provider needs and that is not set. */
  #unsetNeed(name: string): string | undefined {
    const { provider, env } = this.#owner(name)
    return (provider.needs ?? [])
      .map((need) => (typeof need === 'string' ? [need] : need))
      .find((either) => !either.some((one) => env[one]))?.[0]
  }

  #owner(name: string): Known {
    const found = this.#known.get(name)
    if (!found) throw new Error(`No plugin brings "${name}".`)
    return found
  }
}

/** A name is cut at its first slash. */
function cut(id: string): { readonly name: string; readonly model: string } {
  const slash = id.indexOf('/')
  return slash < 0
    ? { name: id, model: '' }
    : { name: id.slice(0, slash), model: id.slice(slash + 1) }
}

/** The providers of a plugin, the last one first; those that it makes in its setup are not there yet. */
function providersOf({ definition }: AnyPlugin, env: Variables): [string, Known][] {
  const { models } = definition
  if (typeof models !== 'object') return []
  const own = Object.fromEntries(
    Object.keys(definition.env ?? {}).map((name) => [name, env[name] || undefined]),
  )
  return Object.entries(models)
    .toReversed()
    .map(([name, provider]) => [name, { provider, env: own }])
}

/** What an error says, with what its cause says of it for the operator. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : ''
  return `${error.message}${cause}`
}
