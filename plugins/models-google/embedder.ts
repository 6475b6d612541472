import { askProvider, modelFault, type Embedder, type Embeddings } from '#core/models'
import { addressOf, headersOf, resourceOf, type Access } from './access.ts'
import { variables } from './names.ts'

/** How many texts one request holds: the provider takes 100. */
const mostTexts = 96

/** An embedding model, and how the operator set it. */
export interface EmbedderOptions extends Access {
  /** What EMBEDDING_MODEL calls the model. */
  readonly id: string
  /** The model's name at the provider. */
  readonly name: string
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How often a question is asked, where the fault may pass. */
  readonly attempts?: number
}

/** A model that makes vectors, behind `:batchEmbedContents`. */
export class GoogleEmbedder implements Embedder {
  readonly id: string
  readonly #options: EmbedderOptions
  readonly #url: URL

  constructor(options: EmbedderOptions) {
    this.id = options.id
    this.#options = options
    this.#url = addressOf(options, `/${resourceOf(options.name)}:batchEmbedContents`)
  }

  /** A vector for each text, in their order. */
  async embed(
    texts: readonly string[],
    options: Parameters<Embedder['embed']>[1],
  ): Promise<Embeddings> {
    const vectors: Float32Array[] = []
    for (let at = 0; at < texts.length; at += mostTexts)
      vectors.push(...(await this.#ask(texts.slice(at, at + mostTexts), options)))
    return { vectors }
  }

  async #ask(
    texts: readonly string[],
    { kind, signal, onRetry }: Parameters<Embedder['embed']>[1],
  ) {
    const { name, apiKey, headers, attempts } = this.#options
    const model = name.includes('/') ? name : `models/${name}`
    const taskType = kind === 'query' ? 'RETRIEVAL_QUERY' : 'RETRIEVAL_DOCUMENT'
    // The provider refuses an empty text; a space has a vector, too.
    const requests = texts.map((text) => ({
      model,
      content: { parts: [{ text: text || ' ' }] },
      taskType,
    }))
    const answer = (await askProvider({
      url: this.#url,
      headers: { ...headersOf(this.#options), ...headers },
      body: JSON.stringify({ requests }),
      asked: { model: name, secret: apiKey, settings: variables },
      signal,
      ...(attempts !== undefined && { attempts }),
      ...(onRetry && { onRetry }),
    })) as { readonly embeddings?: unknown } | null
    const vectors = vectorsOf(answer?.embeddings)
    if (vectors?.length === texts.length) return vectors
    throw modelFault('MODEL_ANSWER_INVALID', this.#url.host, 'sent no vector for each text.')
  }
}

/** The vectors of an answer; undefined where one of them is none, or they differ in length. */
function vectorsOf(embeddings: unknown): Float32Array[] | undefined {
  if (!Array.isArray(embeddings)) return undefined
  const vectors: Float32Array[] = []
  for (const each of embeddings) {
    const values: unknown = each?.values
    if (!Array.isArray(values) || values.length === 0) return undefined
    if (!values.every((value) => typeof value === 'number')) return undefined
    vectors.push(Float32Array.from(values))
  }
  return vectors.every(({ length }) => length === vectors[0]?.length) ? vectors : undefined
}
