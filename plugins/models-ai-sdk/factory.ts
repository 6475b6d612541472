import { RuntimeError } from '#core'
import type { AiSdkEmbeddingModel, AiSdkModel } from '#core/models'

/** How a package is set up, where the operator says more than its own variables do. */
export interface FactorySettings {
  readonly apiKey?: string
  readonly baseURL?: string
  readonly headers?: Readonly<Record<string, string>>
  /** What the package asks its server with. */
  readonly fetch?: typeof fetch
}

/** What a package makes models with. */
export interface SdkProvider {
  (name: string): AiSdkModel
  languageModel?(name: string): AiSdkModel
  embeddingModel?(name: string): AiSdkEmbeddingModel
  textEmbeddingModel?(name: string): AiSdkEmbeddingModel
}

type Exports = Readonly<Record<string, unknown>>

/**
 * What a package makes models with: what `createMistral` of @ai-sdk/mistral gives with the settings, or `mistral`, which reads the
 * package's own variables, where the operator has set nothing. The name is the package's in camel case, or its end: `bedrock` of
 * @ai-sdk/amazon-bedrock.
 */
export function providerIn(
  exports: Exports,
  { package: name, short }: { readonly package: string; readonly short: string },
  settings: FactorySettings = {},
): SdkProvider {
  const { fetch: _, ...set } = settings
  const create = exportFor(exports, short, 'create')
  const made: unknown = typeof create === 'function' ? create(settings) : undefined
  if (isProvider(made)) return made
  const isSet = Object.values(set).some((value) => value !== undefined)
  const ready = isSet ? undefined : exportFor(exports, short, '')
  if (isProvider(ready)) return ready
  throw new RuntimeError(
    'MODEL_UNUSABLE',
    `The package ${name} exports nothing that makes models.`,
    { hint: 'Take a package of the AI SDK, and a version of it with LanguageModelV3 or V4.' },
  )
}

/** The export that is named by the package, the nearest name first. */
function exportFor(exports: Exports, short: string, prefix: string): unknown {
  const wanted = plain(short)
  const named = Object.entries(exports).flatMap(([name, value]) =>
    name.startsWith(prefix) && typeof value === 'function'
      ? [{ word: plain(name.slice(prefix.length)), value }]
      : [],
  )
  const nearest =
    named.find(({ word }) => word === wanted) ??
    named.find(({ word }) => word !== '' && wanted.endsWith(word)) ??
    named.find(({ word }) => word !== '' && (word.startsWith(wanted) || wanted.startsWith(word)))
  if (nearest) return nearest.value
  // Of another name there is at most one, such as createOpenRouter of a package of another scope.
  return prefix !== '' && named.length === 1 ? named[0]?.value : undefined
}

const plain = (name: string): string => name.replace(/[^a-z0-9]/gi, '').toLowerCase()

function isProvider(value: unknown): value is SdkProvider {
  return (
    (typeof value === 'function' || (typeof value === 'object' && value !== null)) &&
    ('languageModel' in value || 'embeddingModel' in value || 'specificationVersion' in value)
  )
}

/** The language model of a name. */
export function languageModelOf(provider: SdkProvider, name: string): AiSdkModel {
  return provider.languageModel ? provider.languageModel(name) : provider(name)
}

/** The embedding model of a name; undefined where the package has none. */
export function embeddingModelOf(
  provider: SdkProvider,
  name: string,
): AiSdkEmbeddingModel | undefined {
  return provider.embeddingModel?.(name) ?? provider.textEmbeddingModel?.(name)
}
