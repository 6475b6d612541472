import { setTimeout as pause } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import type { Delta, Model, ModelRequest, OfferSettings } from '../../../plugin.ts'
import { modelFault } from '../transport/model-fault.ts'
import { Patience } from './patience.ts'
import type { Asked } from '../transport/provider-fault.ts'
import { waitBefore } from '../transport/retry.ts'
import { usualLimits } from '../transport/wire.ts'
import { AnswerParts } from './answer-parts.ts'
import { callOptions, type SdkCall } from './call-options.ts'
import { aiSdkFault } from './fault.ts'
import { spokenVersions, type AiSdkModel, type AiSdkStream } from './shape.ts'

/** What is known of a model of the AI SDK beside itself. */
export interface AiSdkOptions extends Omit<SdkCall, 'origin' | 'version' | 'headers'> {
  /** What MODEL calls the model; by default its provider and its name. */
  readonly id?: string
  readonly settings?: OfferSettings
  readonly reads?: Model['reads']
  readonly can?: Model['can']
  /** The key, which is taken out of everything that is kept of a provider's words. */
  readonly secret?: string
  /** The names of the settings that hold the key and the address, for the operator. */
  readonly names?: Asked['settings']
}

const usualNames = {
  key: 'the key that the package reads',
  address: 'the address that it is given',
}

/** Any language model of the AI SDK as a model of ours. Its packages ask once, so the attempts and limits of time are ours. */
export class AiSdkLanguageModel implements Model {
  readonly id: string
  readonly label: string
  readonly origin: string
  readonly reads: Model['reads']
  readonly can: Model['can']
  readonly #model: AiSdkModel
  readonly #asking: SdkCall
  readonly #settings: OfferSettings
  readonly #asked: Asked

  /** Throws MODEL_UNUSABLE for a version of the specification that the runtime does not speak. */
  constructor(model: AiSdkModel, options: AiSdkOptions = {}) {
    const { specificationVersion: version, provider, modelId, supportedUrls } = model
    const { settings = {}, secret, names, can = {} } = options
    const maker = String(provider).split('.')[0]
    this.id = options.id ?? `${maker}/${modelId}`
    if (!spokenVersions.includes(version))
      throw new RuntimeError(
        'MODEL_UNUSABLE',
        `"${this.id}" speaks ${version} of the AI SDK's specification, not ${spokenVersions.join(' or ')}.`,
        { hint: 'Update the package that the model came from.' },
      )
    this.label = String(modelId)
    this.origin = `${this.id} at ${provider}`
    this.reads = settings.reads ?? options.reads ?? readsOf(supportedUrls)
    this.can = can
    this.#model = model
    this.#settings = settings
    const { headers } = settings
    const { providerOptions, thinking, thinksThrough, callOfOthers } = options
    const known = { providerOptions, thinking, thinksThrough, callOfOthers }
    this.#asking = { ...known, origin: this.origin, version, headers }
    this.#asked = { model: this.label, host: this.id, secret, settings: names ?? usualNames }
  }

  /** Gives the deltas of one answer. Until its first word or call the question is asked again where that may help. */
  async *stream(request: ModelRequest): AsyncGenerator<Delta> {
    const { signal } = request
    const attempts = this.#settings.attempts ?? request.attempts ?? usualLimits.attempts
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted()
      const parts = new AnswerParts()
      let isSpoken = false
      try {
        for await (const delta of this.#once(request, parts)) {
          isSpoken ||= delta.type === 'text' || delta.type === 'tool-call'
          yield delta
        }
        return
      } catch (error) {
        signal.throwIfAborted()
        const fault = aiSdkFault(error, this.#asked, parts.isBegun)
        const wait = isSpoken ? undefined : waitBefore(attempt, fault)
        if (wait === undefined || attempt >= attempts) throw fault
        request.onRetry?.(attempt + 1, fault)
        await pause(wait, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    }
  }

  async *#once(request: ModelRequest, parts: AnswerParts): AsyncGenerator<Delta> {
    const { firstTokenMs = usualLimits.firstTokenMs, idleMs = usualLimits.idleMs } = this.#settings
    const waiting = new Patience(request.signal, idleMs, this.id)
    let reader: ReturnType<AiSdkStream['getReader']> | undefined
    let size = 0
    try {
      const options = await callOptions(request, this.#asking)
      const { stream } = await waiting.for(this.#model.doStream(options), firstTokenMs)
      reader = stream.getReader()
      for (;;) {
        const ms = parts.isBegun ? idleMs : firstTokenMs
        const { done, value } = await waiting.for(reader.read(), ms)
        if (done) break
        const delta = parts.take(value)
        if (!delta) continue
        size +=
          'text' in delta ? delta.text.length : 'args' in delta ? (delta.args?.length ?? 0) : 0
        if (size > usualLimits.maxAnswer) throw tooLong(this.id)
        yield delta
      }
    } finally {
      waiting.end()
      // Nothing waits for the end of the stream: a package that ignores its signal might never end it.
      void reader?.cancel().catch(() => {})
    }
    this.#judge(parts)
    yield* parts.last()
  }

  /** Throws where an answer ended otherwise than an answer ends. */
  #judge({ ended, isEmpty, isBegun, isWords }: AnswerParts): void {
    const { host } = this.#asked
    const later = { hint: 'Try again in a moment.' }
    if (ended === undefined && isBegun)
      throw modelFault('MODEL_STREAM_BROKEN', host, 'broke off its answer.', later)
    // Words that were said before stand; calls of an answer that was refused are not carried out.
    if (ended === 'content-filter' && !isWords)
      throw modelFault('MODEL_REFUSED', host, 'refused to answer this for reasons of content.')
    if (ended === 'error') throw modelFault('MODEL_FAILED', host, 'failed to answer.', later)
    if (isEmpty && !/^(stop|length|tool-calls)$/.test(ended ?? ''))
      throw modelFault('MODEL_ANSWER_INVALID', host, 'answered with what is no answer.', {
        check: `${this.#asked.settings.address} is most likely not the address of an API.`,
      })
  }
}

/**
 * What a model reads beside text. The AI SDK has no word for it, but says of which types a model takes addresses: what it
 * fetches it can read.
 */
function readsOf(supportedUrls: unknown): Model['reads'] {
  if (typeof supportedUrls !== 'object' || supportedUrls === null) return undefined
  const types = Object.keys(supportedUrls)
  const of = (kind: RegExp) => types.filter((type) => kind.test(type))
  const image = of(/^image\//)
  const file = of(/^application\//)
  return image.length + file.length > 0 ? { image, file } : undefined
}

function tooLong(id: string): RuntimeError {
  const most = usualLimits.maxAnswer
  return new RuntimeError(
    'MODEL_ANSWER_TOO_LONG',
    `The answer of "${id}" went past ${most} characters.`,
  )
}
