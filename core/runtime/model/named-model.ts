import { RuntimeError } from '../../errors.ts'
import type { EnvSource } from '../../manifest/env.ts'
import { didYouMean, meant } from '../../manifest/did-you-mean.ts'
import type { Model, ModelProvider, OfferSettings } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'

/** A provider, and the plugin that brings it. */
export interface Brought {
  readonly provider: ModelProvider
  readonly record: PluginRecord
}

/** The providers of the app, by what stands before the first slash of a name. */
export type Providers = ReadonlyMap<string, Brought>

/** The providers that active plugins bring, as far as they are known, and a fault for each name that two plugins bring. */
export function providersOf(records: readonly PluginRecord[]): {
  readonly providers: Providers
  readonly faults: readonly RuntimeError[]
} {
  const providers = new Map<string, Brought>()
  const faults: RuntimeError[] = []
  for (const record of records)
    for (const [name, provider] of Object.entries(record.models ?? {})) {
      const owner = providers.get(name)?.record.name
      if (owner === undefined) providers.set(name, { provider, record })
      else faults.push(conflict(name, owner, record.name))
    }
  return { providers, faults }
}

function conflict(name: string, first: string, second: string): RuntimeError {
  return new RuntimeError(
    'MODEL_CONFLICT',
    `Both ${first} and ${second} bring models of "${name}".`,
    { hint: 'Turn one of the two plugins off, or rename what it brings.' },
  )
}

/** A name of MODEL, cut at its first slash: the rest may hold more slashes, and colons. */
export function splitName(name: string): { readonly provider: string; readonly model: string } {
  const slash = name.indexOf('/')
  if (slash < 0) return { provider: name, model: '' }
  return { provider: name.slice(0, slash), model: name.slice(slash + 1) }
}

/** What a name is checked against. */
export interface NameContext {
  readonly providers: Providers
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
  readonly source: EnvSource
  /** The variable that holds the name: MODEL, or another one that names a model. */
  readonly variable: string
  /** The plugins whose setup has not finished, so that nobody knows what they bring. */
  readonly unready?: readonly string[]
}

/** What is wrong with a name of MODEL; undefined when its provider can open it. */
export function nameFault(
  name: string,
  settings: OfferSettings,
  { providers, envOf, source, variable, unready }: NameContext,
): RuntimeError | undefined {
  const fault = (message: string, hint?: string) =>
    new RuntimeError('ENV_INVALID', message, { hint })
  const { provider: owner, model } = splitName(name)
  const brought = providers.get(owner)
  if (!brought && unready?.length)
    return fault(
      `${variable} names "${name}", and the setup of ${unready.join(', ')}, which may bring it, has not finished.`,
      'Let the setup return, and open what takes long at the first call.',
    )
  if (!brought) return unknownFault(name, providers, variable)
  const { provider, record } = brought
  if (provider.standIn ? name !== owner : model === '')
    return provider.standIn
      ? fault(`${variable} is "${name}", which is no model.`, `Write ${owner}.`)
      : fault(`${variable} is "${name}", which names no model.`, `Write ${owner}/<name>.`)
  const env = envOf.get(record.name) ?? {}
  const { keyFrom, baseUrl } = settings
  if (keyFrom !== undefined && !source[keyFrom])
    return fault(
      `${variable} names "${name}", but ${keyFrom} is not set.`,
      `The settings of the model say that its key is in ${keyFrom}.`,
    )
  if (keyFrom === undefined && baseUrl === undefined)
    for (const need of provider.needs ?? []) {
      const either = typeof need === 'string' ? [need] : need
      if (either.some((one) => env[one])) continue
      return fault(
        `${variable} names "${name}", but ${either[0]} is not set.`,
        either.length > 1
          ? `Set ${either.slice(0, -1).join(', ')} or ${either.at(-1)}.`
          : `Set ${either[0]}, or take "${name}" out of ${variable}.`,
      )
    }
  const own = provider.fault?.(model, { env, settings, key: keyFrom && source[keyFrom], variable })
  return own && fault(own.message, own.hint)
}

function unknownFault(name: string, providers: Providers, variable: string): RuntimeError {
  const { provider: owner } = splitName(name)
  const names = [...providers.keys()]
  const fault = (message: string, hint: string) =>
    new RuntimeError('ENV_INVALID', message, { hint })
  if (name.includes('/')) {
    const like = didYouMean(owner, names)
    return fault(
      `${variable} names "${name}", which no plugin brings.`,
      like
        ? `Did you mean "${like}${name.slice(owner.length)}"?`
        : `There are models of ${names.join(', ') || 'nobody'}.`,
    )
  }
  const maker = names.find((key) =>
    providers.get(key)?.provider.prefixes?.some((prefix) => name.startsWith(prefix)),
  )
  if (maker !== undefined)
    return fault(
      `${variable} is "${name}": did you mean "${maker}/${name}"?`,
      'A name begins with its provider.',
    )
  return fault(
    `${variable} is "${name}", which is no model.`,
    meant(name, names) || 'Write <provider>/<name>, as in the list of docs/models.md.',
  )
}

/** Opens a model of a provider, once the setup of the plugin has finished. */
export async function openNamed(
  name: string,
  settings: OfferSettings,
  { providers, source }: Pick<NameContext, 'providers' | 'source'>,
): Promise<Model> {
  const { provider: owner, model } = splitName(name)
  const brought = providers.get(owner)
  const base = brought?.record.base
  if (!brought || !base)
    throw new RuntimeError('UNAVAILABLE', `The model "${name}" is not there yet.`, {
      hint: 'Try again in a moment.',
    })
  const { env, self, fetch, log } = base
  const key = settings.keyFrom === undefined ? undefined : source[settings.keyFrom]
  return await brought.provider.open(model, { env, self, settings, fetch, log, key })
}
