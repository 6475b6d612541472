import { RuntimeError, type OfferSettings } from '#core'
import { AiSdkEmbedder, AiSdkLanguageModel } from '#core/models'
import { boundedFetch } from './bounded-fetch.ts'
import { embeddingModelOf, languageModelOf, providerIn, type SdkProvider } from './factory.ts'
import { known } from './known.ts'
import { importPackage, nameFault, packageFolder, sdkName, type SdkName } from './packages.ts'

/** How the operator set a model, and the key where a setting names its variable. */
interface Opening {
  readonly settings: OfferSettings
  readonly key?: string
  /** The folder in which packages are looked for first; by default the one that the process works in. */
  readonly from?: string
}

/** Opens a language model of a package: `name` is what MODEL says after `ai-sdk/`. */
export async function openModel(name: string, opening: Opening): Promise<AiSdkLanguageModel> {
  const { provider, named } = await providerOf(name, opening)
  const { settings, key } = opening
  return new AiSdkLanguageModel(languageModelOf(provider, named.model), {
    ...known[named.package],
    id: `ai-sdk/${name}`,
    settings,
    secret: key,
    names: {
      key: settings.keyFrom ?? `the variable that ${named.package} reads its key from`,
      address: settings.baseUrl ? 'baseUrl' : `the address of ${named.package}`,
    },
  })
}

/** Opens an embedding model of a package. */
export async function openEmbedder(name: string, opening: Opening): Promise<AiSdkEmbedder> {
  const { provider, named } = await providerOf(name, opening)
  const model = embeddingModelOf(provider, named.model)
  if (!model)
    throw new RuntimeError('MODEL_UNUSABLE', `The package ${named.package} makes no vectors.`)
  const { headers, attempts } = opening.settings
  return new AiSdkEmbedder(model, { id: `ai-sdk/${name}`, headers, attempts, secret: opening.key })
}

async function providerOf(
  name: string,
  { settings, key, from }: Opening,
): Promise<{ readonly provider: SdkProvider; readonly named: SdkName }> {
  const named = sdkName(name)
  const folder = named && packageFolder(named.package, from)
  if (!named || !folder) {
    const { message, hint } = nameFault(name)
    throw new RuntimeError('MODEL_UNUSABLE', message, { hint })
  }
  const exports = await importPackage(folder)
  return {
    named,
    provider: providerIn(exports, named, {
      ...{ apiKey: key, baseURL: settings.baseUrl },
      fetch: boundedFetch,
    }),
  }
}
