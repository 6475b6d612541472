import type { Delta } from '../../plugin.ts'
import { callSlots } from './transport/call-slots.ts'
import { modelFault } from './transport/model-fault.ts'
import type { Asked } from './transport/provider-fault.ts'
import type { FrameReader } from './transport/wire.ts'

/** The fields of a chunk that `ChunkReader` reads. A foreign server sends them, so each is checked where it is used. */
interface Chunk {
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
export class ChunkReader implements FrameReader {
  finished = false
  readonly #asked: Asked
  readonly #slots = callSlots()
  /** The usage, given out at the end of the answer: some servers send a higher count in every chunk. */
  #usage: Delta | undefined
  #spoke = false

  constructor(asked: Asked) {
    this.#asked = asked
  }

  /** Reads one chunk, or the whole answer of a server that does not stream, and adds its deltas to `onto`. */
  take(chunk: Chunk | null, onto: Delta[]): void {
    const counted = chunk?.usage
    if (typeof counted?.prompt_tokens === 'number')
      this.#usage = {
        type: 'usage',
        inputTokens: counted.prompt_tokens,
        outputTokens: Number(counted.completion_tokens) || 0,
      }
    const choice = chunk?.choices?.[0]
    // The request asks for one choice. When a server sends more, only the first counts.
    if (!choice || (choice.index ?? 0) !== 0) return
    const piece = choice.delta ?? choice.message
    if (piece) this.#speak(piece, onto)
    this.#spoke ||= onto.length > 0
    if (!choice.finish_reason) return
    this.finished = true
    if (choice.finish_reason === 'content_filter' && !this.#spoke)
      throw modelFault(
        'MODEL_REFUSED',
        this.#asked.host,
        'refused to answer this for reasons of content.',
      )
  }

  last(): readonly Delta[] {
    return this.#usage ? [this.#usage] : []
  }

  #speak(piece: Piece, onto: Delta[]): void {
    const thought = piece.reasoning_content ?? piece.reasoning
    if (typeof thought === 'string' && thought) onto.push({ type: 'reasoning', text: thought })
    this.#say(piece.content, onto)
    this.#say(piece.refusal, onto)
    if (!Array.isArray(piece.tool_calls)) return
    for (const call of piece.tool_calls as readonly (CallPiece | null)[]) {
      const { id, index, function: named } = call ?? {}
      const delta = this.#slots({ index, id, name: named?.name, args: named?.arguments })
      if (delta) onto.push(delta)
    }
  }

  #say(words: unknown, onto: Delta[]): void {
    if (typeof words === 'string') {
      if (words) onto.push({ type: 'text', text: words })
    } else if (Array.isArray(words)) {
      for (const part of words) if (part?.type === 'text') this.#say(part.text, onto)
    }
  }
}
