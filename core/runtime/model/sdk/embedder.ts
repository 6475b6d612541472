import { setTimeout as pause } from 'node:timers/promises'
import type { Embedder, Embeddings } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import { modelFault } from '../transport/model-fault.ts'
import { Patience } from './patience.ts'
import type { Asked } from '../transport/provider-fault.ts'
import { waitBefore } from '../transport/retry.ts'
import { usualLimits } from '../transport/wire.ts'
import { aiSdkFault } from './fault.ts'
import type { AiSdkEmbeddingModel } from './shape.ts'

/** The most texts of one call, unless the package says fewer. */
const mostTexts = 96

/** Any embedding model of the AI SDK as an embedder of ours. */
export class AiSdkEmbedder implements Embedder {
  readonly id: string
  readonly #model: AiSdkEmbeddingModel
  readonly #headers: Readonly<Record<string, string>> | undefined
  readonly #attempts: number
  readonly #asked: Asked

  /** `id` is what EMBEDDING_MODEL calls the model. */
  constructor(
    model: AiSdkEmbeddingModel,
    {
      id,
      headers,
      attempts = usualLimits.attempts,
      secret,
    }: {
      readonly id: string
      readonly headers?: Readonly<Record<string, string>>
      readonly attempts?: number
      /** The key, which is taken out of everything that is kept of a provider's words. */
      readonly secret?: string
    },
  ) {
    this.id = id
    this.#model = model
    this.#headers = headers
    this.#attempts = attempts
    const settings = { key: 'the key that the package reads', address: 'its address' }
    this.#asked = { model: id, host: id, secret, settings }
  }

  /** A vector for each text, in the order of the texts. */
  async embed(
    texts: readonly string[],
    { signal }: Parameters<Embedder['embed']>[1],
  ): Promise<Embeddings> {
    const own = await this.#model.maxEmbeddingsPerCall
    const size = typeof own === 'number' && own >= 1 ? Math.min(own, mostTexts) : mostTexts
    const vectors: Float32Array[] = []
    let tokens = 0
    for (let at = 0; at < texts.length; at += size) {
      const values = texts.slice(at, at + size)
      const { embeddings, usage } = await this.#ask(values, signal)
      if (!Array.isArray(embeddings) || embeddings.length !== values.length)
        throw modelFault(
          'MODEL_ANSWER_INVALID',
          this.id,
          'gave another number of vectors than of texts.',
        )
      for (const vector of embeddings) vectors.push(Float32Array.from(vector))
      tokens += Number(fieldsIn(usage).tokens) || 0
    }
    return {
      vectors,
      ...(tokens > 0 && { usage: { inputTokens: tokens, outputTokens: 0 } }),
    }
  }

  async #ask(values: readonly string[], signal: AbortSignal) {
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted()
      const waiting = new Patience(signal, usualLimits.idleMs, this.id)
      try {
        const options = { values, abortSignal: signal, headers: this.#headers }
        return await waiting.for(this.#model.doEmbed(options))
      } catch (error) {
        signal.throwIfAborted()
        const fault = aiSdkFault(error, this.#asked, false)
        const wait = waitBefore(attempt, fault)
        if (wait === undefined || attempt >= this.#attempts) throw fault
        await pause(wait, undefined, { signal }).catch(() => signal.throwIfAborted())
      } finally {
        waiting.end()
      }
    }
  }
}
