import { RuntimeError } from '../../errors.ts'
import type { Delta } from '../../plugin.ts'
import { callSlots } from './call-slots.ts'
import { modelFault } from './model-fault.ts'
import { providerFault, type Asked } from './provider-fault.ts'

/** The fields of a chunk that `ChunkReader` reads. A foreign server sends them, so each is checked where it is used. */
interface Chunk {
  readonly error?: unknown
  readonly choices?: readonly Choice[]
  readonly usage?: { readonly prompt_tokens?: unknown; readonly completion_tokens?: unknown }
}
interface Choice {
  readonly index?: unknown
  readonly delta?: Piece
  readonly message?: Piece
  readonly finish_reason?: unknown
}
interface Piece {
  readonly content?: unknown
  readonly refusal?: unknown
  readonly reasoning_content?: unknown
  readonly reasoning?: unknown
  readonly tool_calls?: unknown
}
interface CallPiece {
  readonly index?: unknown
  readonly id?: unknown
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown }
}

/** Reads the chunks of one completion, in order, into deltas. */
export class ChunkReader {
  /** Set when the provider has said why it stopped: after that only the usage may follow. */
  finished = false
  /** The usage, given out at the end of the answer: some servers send a higher count in every chunk. */
  usage: Delta | undefined
  readonly #asked: Asked
  readonly #limit: number
  readonly #slots = callSlots()
  #size = 0
  #spoke = false

  /** `limit` is in characters of text, reasoning and arguments together. */
  constructor(asked: Asked, limit: number) {
    this.#asked = asked
    this.#limit = limit
  }

  /** Reads one chunk, or the whole answer of a server that does not stream, and adds its deltas to `onto`. */
  take(json: string, onto: Delta[]): void {
    const chunk = this.#parse(json)
    if (chunk?.error) throw providerFault({ text: json }, this.#asked)
    const counted = chunk?.usage
    if (typeof counted?.prompt_tokens === 'number')
      this.usage = {
        type: 'usage',
        inputTokens: counted.prompt_tokens,
        outputTokens: Number(counted.completion_tokens) || 0,
      }
    const choice = chunk?.choices?.[0]
    // The request asks for one choice. When a server sends more, only the first counts.
    if (!choice || (choice.index ?? 0) !== 0) return
    const piece = choice.delta ?? choice.message
    if (piece) this.#speak(piece, onto)
    if (!choice.finish_reason) return
    this.finished = true
    if (choice.finish_reason === 'content_filter' && !this.#spoke)
      throw modelFault(
        'MODEL_REFUSED',
        this.#asked.host,
        'refused to answer this for reasons of content.',
      )
  }

  #parse(json: string): Chunk | null {
    try {
      return JSON.parse(json)
    } catch (cause) {
      throw modelFault('MODEL_STREAM_BROKEN', this.#asked.host, 'sent a chunk that is no JSON.', {
        cause,
      })
    }
  }

  #speak(piece: Piece, onto: Delta[]): void {
    const thought = piece.reasoning_content ?? piece.reasoning
    if (typeof thought === 'string' && thought) {
      this.#count(thought)
      onto.push({ type: 'reasoning', text: thought })
    }
    this.#say(piece.content, onto)
    this.#say(piece.refusal, onto)
    if (!Array.isArray(piece.tool_calls)) return
    for (const call of piece.tool_calls as readonly (CallPiece | null)[]) {
      const { id, index, function: named } = call ?? {}
      const delta = this.#slots({ index, id, name: named?.name, args: named?.arguments })
      if (!delta) continue
      this.#count(delta.args ?? '')
      onto.push(delta)
    }
  }

  #say(words: unknown, onto: Delta[]): void {
    if (typeof words === 'string') {
      if (!words) return
      this.#count(words)
      onto.push({ type: 'text', text: words })
    } else if (Array.isArray(words)) {
      for (const part of words) if (part?.type === 'text') this.#say(part.text, onto)
    }
  }

  #count(text: string): void {
    this.#spoke = true
    this.#size += text.length
    if (this.#size > this.#limit)
      throw new RuntimeError(
        'MODEL_ANSWER_TOO_LONG',
        `The answer of "${this.#asked.model}" went past ${this.#limit} characters.`,
      )
  }
}
