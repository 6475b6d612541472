import { askProvider, modelFault, tokenCount, type ModelUsage } from '#core/models'
import { aboutModel, windowOf } from './about.ts'
import { addressOf, headersOf, settingNames, type Access } from './address.ts'

/** A model that makes vectors, and how the operator set it. */
export interface EmbedderOptions extends Access {
  /** What EMBEDDING_MODEL calls the model. */
  readonly id: string
  /** The model's name at the server. */
  readonly name: string
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How many tokens of a text to read, in place of the usual number. */
  readonly contextWindow?: number
}

/** Texts as vectors, by a model behind `/api/embed`. */
export class OllamaEmbedder {
  readonly id: string
  readonly #options: EmbedderOptions
  readonly #window: number

  /** A model of which the server has said how much it reads; `open` asks for it. */
  constructor(options: EmbedderOptions, window: number) {
    this.id = options.id
    this.#options = options
    this.#window = window
  }

  /** Asks the server about the model, and makes it. */
  static async open(
    options: EmbedderOptions,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<OllamaEmbedder> {
    const about = await aboutModel(options.name, options, signal)
    return new OllamaEmbedder(options, windowOf(about, options.contextWindow))
  }

  /** A vector for each text, in the order of the texts. A text that is too long is refused, never cut. */
  async embed(
    texts: readonly string[],
    { signal, onRetry }: { readonly signal: AbortSignal; onRetry?(attempt: number): void },
  ): Promise<{ readonly vectors: readonly Float32Array[]; readonly usage?: ModelUsage }> {
    const { name, apiKey, headers } = this.#options
    const url = addressOf(this.#options, '/api/embed')
    const answer = (await askProvider({
      url,
      headers: { ...headersOf({ apiKey }), ...headers },
      body: JSON.stringify({
        model: name,
        input: texts,
        truncate: false,
        options: { num_ctx: this.#window },
      }),
      asked: { model: name, secret: apiKey, settings: settingNames },
      signal,
      ...(onRetry && { onRetry }),
    })) as { readonly embeddings?: unknown; readonly prompt_eval_count?: unknown } | null
    const vectors = vectorsIn(answer?.embeddings)
    if (vectors?.length !== texts.length)
      throw modelFault(
        'MODEL_ANSWER_INVALID',
        url.host,
        `did not give a vector for each of ${texts.length} texts.`,
        { check: `Check that "${name}" is a model for embeddings.` },
      )
    const inputTokens = tokenCount(answer?.prompt_eval_count)
    return {
      vectors,
      ...(inputTokens !== undefined && { usage: { inputTokens, outputTokens: 0 } }),
    }
  }
}

/** The vectors of an answer; undefined where one is none, or is of another length than the first. */
function vectorsIn(value: unknown): readonly Float32Array[] | undefined {
  if (!Array.isArray(value)) return undefined
  const vectors: Float32Array[] = []
  for (const each of value) {
    if (!Array.isArray(each) || each.length === 0 || !each.every(Number.isFinite)) return undefined
    if (vectors[0] && vectors[0].length !== each.length) return undefined
    vectors.push(Float32Array.from(each))
  }
  return vectors
}
