import { askProvider, modelFault, type Embedder, type Embeddings } from '#core/models'
import { addressOf, headersOf, type Access } from './chat/address.ts'

/** An embedding model, and how the operator set it. */
export interface EmbedderOptions extends Access {
  /** What EMBEDDING_MODEL calls the model. */
  readonly id: string
  /** The model's name at the provider. */
  readonly name: string
  /** The name of the variable with the key, for the operator. */
  readonly keyFrom?: string
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How often a question is asked, where the fault may pass. */
  readonly attempts?: number
}

type Entries = readonly ({ readonly index?: unknown; readonly embedding?: unknown } | null)[]

/** A model that makes vectors, behind `/embeddings`. */
export class EmbeddingsModel implements Embedder {
  readonly id: string
  readonly #options: EmbedderOptions
  readonly #url: URL

  constructor(options: EmbedderOptions) {
    this.id = options.id
    this.#options = options
    this.#url = addressOf(options, '/embeddings')
  }

  /** A vector for each text, in their order. The wire makes the same vectors for what is looked for and what is found. */
  async embed(
    texts: readonly string[],
    { signal, onRetry }: Parameters<Embedder['embed']>[1],
  ): Promise<Embeddings> {
    const { name, apiKey, row, keyFrom = row.key, headers, attempts } = this.#options
    const answer = (await askProvider({
      url: this.#url,
      headers: { ...headersOf(this.#options), ...headers },
      body: JSON.stringify({ model: name, input: texts }),
      asked: { model: name, secret: apiKey, settings: { key: keyFrom, address: row.base } },
      signal,
      ...(attempts !== undefined && { attempts }),
      ...(onRetry && { onRetry }),
    })) as { readonly data?: unknown; readonly usage?: { readonly prompt_tokens?: unknown } } | null
    const vectors = Array.isArray(answer?.data) ? inOrder(answer.data, texts.length) : undefined
    if (!vectors)
      throw modelFault('MODEL_ANSWER_INVALID', this.#url.host, 'sent no vector for each text.', {
        check: `Check that "${name}" is a model for embeddings.`,
      })
    const inputTokens = Number(answer?.usage?.prompt_tokens)
    const isCounted = Number.isSafeInteger(inputTokens) && inputTokens >= 0
    return { vectors, ...(isCounted && { usage: { inputTokens, outputTokens: 0 } }) }
  }
}

/** The vectors in the order that their `index` says; undefined where one is missing, doubled or no list of numbers. */
function inOrder(data: Entries, count: number): readonly Float32Array[] | undefined {
  const byIndex = new Map<unknown, Float32Array>()
  for (const [at, entry] of data.entries()) {
    const { index = at, embedding } = entry ?? {}
    if (!Array.isArray(embedding) || !embedding.every((value) => typeof value === 'number'))
      return undefined
    byIndex.set(index, Float32Array.from(embedding))
  }
  const vectors = Array.from({ length: count }, (_, at) => byIndex.get(at))
  const whole = vectors.filter((vector) => vector !== undefined)
  return data.length === count && whole.length === count ? whole : undefined
}
