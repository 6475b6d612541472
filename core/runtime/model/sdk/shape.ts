import { fieldsIn } from '../../base/fields.ts'

/**
 * What the runtime needs of a language model of the AI SDK, version 3 or 4 of its specification. The runtime knows such a
 * model by its shape, because no package of the AI SDK is a dependency of it.
 */
export interface AiSdkModel {
  readonly specificationVersion: string
  readonly provider: string
  readonly modelId: string
  readonly supportedUrls?: unknown
  doStream(options: object): PromiseLike<{ readonly stream: AiSdkStream }>
}

/** What of a stream of the AI SDK is read. */
export interface AiSdkStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: unknown }>
    cancel(): Promise<void>
  }
}

/** What the runtime needs of an embedding model of the AI SDK. */
export interface AiSdkEmbeddingModel {
  readonly specificationVersion: string
  readonly provider: string
  readonly modelId: string
  readonly maxEmbeddingsPerCall?: unknown
  doEmbed(options: object): PromiseLike<{ readonly embeddings: unknown; readonly usage?: unknown }>
}

/** Whether a value is a language model of the AI SDK, of whatever version. */
export function isAiSdkModel(value: unknown): value is AiSdkModel {
  const { specificationVersion, doStream } = fieldsIn(value)
  return typeof specificationVersion === 'string' && typeof doStream === 'function'
}

/** The versions of the specification that the runtime speaks. */
export const spokenVersions: readonly string[] = ['v3', 'v4']
