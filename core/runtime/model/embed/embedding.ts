import { RuntimeError } from '../../../errors.ts'
import type { Embedded, Embedder, EmbedOptions, ModelCall, ModelUsage } from '../../../plugin.ts'
import { untilAborted } from '../../base/until-aborted.ts'
import { estimatedUsage } from '../estimate.ts'
import { addedUsage, checkedUsage, costOf } from '../usage/counts.ts'
import type { ChosenEmbedder } from './chosen-embedder.ts'
import { LexicalEmbedder } from './lexical.ts'

/** How many texts one call of a model holds. */
const textsPerCall = 96
/** How many texts may be given at once, how long each may be, and all of them together, in bytes. */
const mostTexts = 2048
const mostTextBytes = 128 * 1024
const mostBytes = 8 * 1024 * 1024
/** How long one call of a model may take. */
const callMs = 120_000

/** Who wants vectors, and who hears what they cost. */
export interface EmbeddingAsker {
  readonly for: Pick<ModelCall, 'did' | 'runId' | 'sessionId' | 'plugin' | 'kind'>
  readonly signal?: () => AbortSignal
  readonly tell: (call: ModelCall) => void
}

/** Makes vectors of texts, by the embedder of the app. */
export class Embedding {
  readonly #chosen: ChosenEmbedder
  /** How many numbers the vectors of this process have: a model that changes it in between spoils what is stored. */
  #dimensions: number | undefined

  constructor(chosen: ChosenEmbedder) {
    this.#chosen = chosen
  }

  /** A vector for each text, in their order. One call of the model follows the other, so a fault costs no further call. */
  async embed(
    texts: readonly string[],
    { kind, signal: own }: EmbedOptions,
    asker: EmbeddingAsker,
  ): Promise<Embedded> {
    check(texts, kind)
    const handler = asker.signal?.()
    const signals = [own, handler].filter((each) => each !== undefined)
    const embedder = await this.#opened(signals)
    const { id } = embedder
    const vectors: Float32Array[] = []
    let usage: ModelUsage = { inputTokens: 0, outputTokens: 0, cost: '0' }
    for (let at = 0; at < texts.length; at += textsPerCall) {
      const part = texts.slice(at, at + textsPerCall)
      const made = await this.#call(embedder, part, { kind, signals, asker })
      vectors.push(...made.vectors)
      usage = addedUsage(usage, made.usage)
    }
    return { vectors, model: id, dimensions: this.#dimensions ?? 0, usage }
  }

  async #opened(signals: readonly AbortSignal[]): Promise<Embedder> {
    const signal = AbortSignal.any([...signals])
    signal.throwIfAborted()
    return await untilAborted(signal, this.#chosen.opened())
  }

  async #call(
    embedder: Embedder,
    texts: readonly string[],
    { kind, signals, asker }: Omit<EmbedOptions, 'signal'> & Asking,
  ): Promise<{ readonly vectors: readonly Float32Array[]; readonly usage: ModelUsage }> {
    const late = new AbortController()
    const signal = AbortSignal.any([late.signal, ...signals])
    signal.throwIfAborted()
    const timer = setTimeout(() => late.abort(tooLate(embedder.id)), callMs)
    const began = performance.now()
    let attempts = 1
    let usage: ModelUsage = { inputTokens: 0, outputTokens: 0, cost: '0' }
    const onRetry = (attempt: number) => (attempts = attempt)
    const tell = (code?: string) => {
      if (embedder instanceof LexicalEmbedder) return // no model was asked
      const { id: model } = embedder
      const ms = performance.now() - began
      asker.tell({
        model,
        ...asker.for,
        kind: 'embedding',
        usage,
        ms,
        attempts,
        ...(code && { code }),
      })
    }
    try {
      const made = await untilAborted(signal, embedder.embed(texts, { kind, signal, onRetry }))
      const counted = (made.usage && checkedUsage(made.usage)) ?? estimatedOf(texts)
      usage = { ...counted, cost: costOf(counted, this.#chosen.price) }
      const vectors = this.#checked(made.vectors, texts.length, embedder.id)
      tell()
      return { vectors, usage }
    } catch (error) {
      const cause: unknown = signal.aborted ? signal.reason : error
      const unnamed = signal.aborted ? 'ABORTED' : 'MODEL_FAILED'
      tell(cause instanceof RuntimeError ? cause.code : unnamed)
      throw cause
    } finally {
      clearTimeout(timer)
    }
  }

  /** The vectors, when there is one for each text, and all of them have one length and finite numbers. */
  #checked(given: unknown, count: number, id: string): readonly Float32Array[] {
    const fault = (what: string) =>
      new RuntimeError('MODEL_ANSWER_INVALID', `The embedding model "${id}" ${what}.`, {
        hint: 'Check that EMBEDDING_MODEL names a model for embeddings.',
      })
    const vectors: readonly unknown[] = Array.isArray(given) ? given : []
    if (vectors.length !== count) throw fault(`gave ${vectors.length} vectors for ${count} texts`)
    const length = this.#dimensions ?? lengthOf(vectors[0])
    const sound: Float32Array[] = []
    for (const vector of vectors) {
      if (!(vector instanceof Float32Array) || vector.length === 0)
        throw fault('gave what is no vector')
      if (vector.length !== length)
        throw fault(`gave a vector of ${vector.length} numbers where others have ${length}`)
      if (!vector.every(Number.isFinite)) throw fault('gave a vector with a number that is none')
      sound.push(vector)
    }
    this.#dimensions = length
    return sound
  }
}

interface Asking {
  readonly signals: readonly AbortSignal[]
  readonly asker: EmbeddingAsker
}

const lengthOf = (vector: unknown) => (vector instanceof Float32Array ? vector.length : 0)

function check(texts: readonly string[], kind: unknown): void {
  const refused = (what: string, hint: string) =>
    new RuntimeError('INPUT_INVALID', `models.embed ${what}`, { hint })
  if (kind !== 'query' && kind !== 'document')
    throw refused(`was given the kind "${String(kind).slice(0, 40)}".`, 'It is query or document.')
  if (!Array.isArray(texts)) throw refused('was given no list of texts.', 'Write [text].')
  if (texts.length > mostTexts)
    throw refused(
      `was given ${texts.length} texts, and ${mostTexts} are the most.`,
      'Give them in parts.',
    )
  let bytes = 0
  for (const [at, text] of texts.entries()) {
    if (typeof text !== 'string' || !text.trim())
      throw refused(`was given no text at ${at}.`, 'Leave out what is empty: providers refuse it.')
    const own = Buffer.byteLength(text)
    if (own > mostTextBytes)
      throw refused(
        `was given ${own} bytes at ${at}, and ${mostTextBytes} are the most.`,
        'Give it in parts.',
      )
    bytes += own
  }
  if (bytes > mostBytes)
    throw refused(`was given ${bytes} bytes, and ${mostBytes} are the most.`, 'Give them in parts.')
}

function estimatedOf(texts: readonly string[]): ModelUsage {
  const messages = texts.map((content) => ({ role: 'system', content }) as const)
  return estimatedUsage({ messages, tools: [] }, 0)
}

const tooLate = (id: string) =>
  new RuntimeError(
    'MODEL_TIMEOUT',
    `The embedding model "${id}" took longer than ${callMs / 1000} s.`,
    {
      hint: 'Try again in a moment, or give fewer texts.',
    },
  )
