import {
  callName,
  modelFault,
  type Asked,
  type Delta,
  type EarlyEnd,
  type FrameReader,
} from '#core/models'
import { isCall, noSignature, type Part } from './kept.ts'
import { Counts, type Counted } from './usage.ts'

/** One chunk of the stream. A foreign server writes it, so each field is checked where it is used. */
interface Chunk {
  readonly candidates?: readonly (Candidate | null)[] | null
  readonly promptFeedback?: { readonly blockReason?: unknown } | null
  readonly usageMetadata?: Counted | null
}

interface Candidate {
  readonly index?: unknown
  readonly content?: { readonly parts?: unknown } | null
  readonly finishReason?: unknown
}

/** Reasons to stop as usual. */
const usualEnds: ReadonlySet<unknown> = new Set(['STOP', 'FINISH_REASON_UNSPECIFIED'])
/** Reasons for which the same question may get an answer the next time. */
const slips: ReadonlySet<unknown> = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
  'OTHER',
])

/** Reads the chunks of one answer, in order, into deltas. */
export class ChunkReader implements FrameReader {
  finished = false
  /** How many characters are held for the provider, words not counted: they are counted as words. */
  kept = 0
  readonly #asked: Asked
  readonly #counts = new Counts()
  readonly #parts: Part[] = []
  #words = ''
  #calls = 0
  #signed = false
  #spoke = false
  #ended: EarlyEnd | undefined

  constructor(asked: Asked) {
    this.#asked = asked
  }

  /** Reads one chunk and adds its deltas to `onto`. */
  take(chunk: Chunk | null, onto: Delta[]): void {
    if (chunk?.usageMetadata) this.#counts.add(chunk.usageMetadata)
    if (chunk?.promptFeedback?.blockReason) throw this.#refused()
    const candidate = chunk?.candidates?.[0]
    // The request asks for one candidate. When a server sends more, only the first counts.
    if (!candidate || (candidate.index ?? 0) !== 0) return
    const parts = candidate.content?.parts
    if (Array.isArray(parts)) for (const part of parts as (Part | null)[]) this.#read(part, onto)
    if (candidate.finishReason) this.#stop(candidate.finishReason)
  }

  last(): readonly Delta[] {
    const usage = this.#counts.usage()
    const data = this.#back()
    return [
      ...(this.#ended ? [{ type: 'ended', by: this.#ended } as const] : []),
      ...(usage ? [{ type: 'usage', ...usage } as const] : []),
      ...(data ? [{ type: 'provider', data } as const] : []),
    ]
  }

  #read(part: Part | null, onto: Delta[]): void {
    if (typeof part !== 'object' || part === null) return
    const { text, thought, thoughtSignature: signature } = part
    if (typeof text === 'string' && text) {
      onto.push({ type: thought === true ? 'reasoning' : 'text', text })
      this.#spoke ||= thought !== true
    }
    if (isCall(part)) onto.push(this.#call(part))
    if (typeof signature === 'string' && signature) {
      this.#signed = true
      this.kept += signature.length
      this.#keep(part)
    } else if (isCall(part)) this.#keep(part)
    // Words without a signature may be joined. A summary of thoughts without one is for people alone.
    else if (typeof text === 'string' && thought !== true) this.#words += text
  }

  #call({ functionCall }: Part): Delta {
    const { id, name, args } = functionCall ?? {}
    const json = JSON.stringify(args ?? {})
    this.kept += json.length
    return {
      type: 'tool-call',
      index: this.#calls++,
      ...(typeof id === 'string' && id && { id }),
      ...(typeof name === 'string' && name && { name }),
      args: json,
    }
  }

  #keep(part: Part): void {
    this.#endWords()
    const { functionCall, thoughtSignature } = part
    const isNameless = functionCall && !functionCall.name
    if (!isNameless) return void this.#parts.push(part)
    // The provider refuses a call without a name, and a signature under another name than the one that it has signed.
    this.#parts.push({
      ...part,
      functionCall: { ...functionCall, name: callName('') },
      ...(thoughtSignature !== undefined && { thoughtSignature: noSignature }),
    })
  }

  #endWords(): void {
    if (this.#words) this.#parts.push({ text: this.#words })
    this.#words = ''
  }

  #stop(reason: unknown): void {
    if (slips.has(reason))
      throw modelFault('MODEL_FAILED', this.#asked.host, 'stopped before its answer was whole.', {
        hint: 'Try again in a moment.',
      })
    if (reason === 'MAX_TOKENS') this.#ended = 'length'
    else if (!usualEnds.has(reason)) {
      // Words that were said before stand; calls of an answer that was refused are not carried out.
      if (!this.#spoke || this.#calls > 0) throw this.#refused()
      this.#ended = 'content_filter'
    }
    this.finished = true
  }

  #refused(): Error {
    const what = 'refused to answer this for reasons of content.'
    return modelFault('MODEL_REFUSED', this.#asked.host, what)
  }

  /** What the provider wants back: the parts in their order, where they hold more than words. */
  #back(): { readonly parts: readonly Part[] } | undefined {
    this.#endWords()
    return this.#signed || this.#calls > 0 ? { parts: this.#parts } : undefined
  }
}
