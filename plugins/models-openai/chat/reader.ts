import {
  callSlots,
  modelFault,
  type Asked,
  type Delta,
  type EarlyEnd,
  type FrameReader,
  type ModelUsage,
} from '#core/models'
import { usageOf, type Counted } from './usage.ts'
import type { Kept } from './kept.ts'

/** The fields of a chunk that `ChunkReader` reads. A foreign server sends them, so each is checked where it is used. */
interface Chunk {
  readonly choices?: readonly Choice[]
  readonly usage?: Counted | null
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
  readonly reasoning_details?: unknown
  readonly tool_calls?: unknown
}
interface CallPiece {
  readonly index?: unknown
  readonly id?: unknown
  readonly extra_content?: unknown
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown }
}

/** Reads the chunks of one completion, in order, into deltas. */
export class ChunkReader implements FrameReader {
  finished = false
  /** How many characters are held for the provider. */
  kept = 0
  readonly #asked: Asked
  readonly #keeps: 'content' | 'details' | undefined
  readonly #slots = callSlots()
  /** The usage, given out at the end of the answer: some servers send a higher count in every chunk. */
  #usage: ModelUsage | undefined
  #ended: EarlyEnd | undefined
  #spoke = false
  #called = false
  #reasoning = ''
  readonly #details: unknown[] = []
  readonly #extra: Record<number, unknown> = {}

  /** `keeps` is what the provider wants back of what the model thought. */
  constructor(asked: Asked, keeps: 'content' | 'details' | undefined) {
    this.#asked = asked
    this.#keeps = keeps
  }

  /** Reads one chunk, or the whole answer of a server that does not stream, and adds its deltas to `onto`. */
  take(chunk: Chunk | null, onto: Delta[]): void {
    if (chunk?.usage) this.#usage = usageOf(chunk.usage, this.#usage)
    const choice = chunk?.choices?.[0]
    // The request asks for one choice. When a server sends more, only the first counts.
    if (!choice || (choice.index ?? 0) !== 0) return
    const piece = choice.delta ?? choice.message
    if (piece) this.#speak(piece, onto)
    this.#spoke ||= onto.length > 0
    if (!choice.finish_reason) return
    this.finished = true
    // Words that were said before stand; calls of an answer that was refused are not carried out.
    if (choice.finish_reason === 'content_filter' && (this.#called || !this.#spoke))
      throw modelFault(
        'MODEL_REFUSED',
        this.#asked.host,
        'refused to answer this for reasons of content.',
      )
    if (choice.finish_reason === 'length' || choice.finish_reason === 'content_filter')
      this.#ended = choice.finish_reason
  }

  last(): readonly Delta[] {
    const data = this.#back()
    return [
      ...(this.#ended ? [{ type: 'ended', by: this.#ended } as const] : []),
      ...(this.#usage ? [{ type: 'usage', ...this.#usage } as const] : []),
      ...(data ? [{ type: 'provider', data } as const] : []),
    ]
  }

  /** What the provider wants back; undefined when nothing. */
  #back(): Kept | undefined {
    const extra = Object.keys(this.#extra).length > 0
    const content = this.#keeps === 'content' && this.#called && this.#reasoning !== ''
    const details = this.#details.filter(isTakenBack)
    if (!extra && !content && details.length === 0) return undefined
    return {
      ...(extra && { extra: this.#extra }),
      ...(content && { reasoning: this.#reasoning }),
      ...(details.length > 0 && { details }),
    }
  }

  #speak(piece: Piece, onto: Delta[]): void {
    const thought = piece.reasoning_content ?? piece.reasoning
    if (typeof thought === 'string' && thought) {
      if (this.#keeps === 'content') {
        this.#reasoning += thought
        this.kept += thought.length
      }
      onto.push({ type: 'reasoning', text: thought })
    }
    if (this.#keeps === 'details' && Array.isArray(piece.reasoning_details))
      for (const detail of piece.reasoning_details) this.#keepDetail(detail)
    this.#say(piece.content, onto)
    this.#say(piece.refusal, onto)
    if (!Array.isArray(piece.tool_calls)) return
    for (const call of piece.tool_calls as readonly (CallPiece | null)[]) {
      const { id, index, function: named, extra_content: extra } = call ?? {}
      const delta = this.#slots({ index, id, name: named?.name, args: named?.arguments })
      if (!delta) continue
      this.#called = true
      if (extra !== undefined && extra !== null) {
        this.kept += JSON.stringify(extra).length
        this.#extra[delta.index] = extra
      }
      onto.push(delta)
    }
  }

  /** Pieces of one detail come one after the other; the provider wants the detail back in one. */
  #keepDetail(detail: unknown): void {
    if (typeof detail !== 'object' || detail === null) return
    this.kept += JSON.stringify(detail).length
    const last = this.#details.at(-1) as Record<string, unknown> | undefined
    const next: Readonly<Record<string, unknown>> = { ...detail }
    if (!last || last.type !== next.type || last.index !== next.index || next.index === undefined)
      return void this.#details.push({ ...next })
    for (const [key, value] of Object.entries(next)) {
      const before = last[key]
      const grows = key === 'text' || key === 'summary' || key === 'data'
      if (grows && typeof before === 'string' && typeof value === 'string')
        last[key] = before + value
      else if (value !== null && value !== undefined) last[key] = value
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

/** Whether a detail may go back: thoughts of a provider that signs them are refused where the signature is missing. */
function isTakenBack(detail: unknown): boolean {
  const { type, format, signature } = detail as Readonly<Record<string, unknown>>
  const isSignedForm = type === 'reasoning.text' && String(format).startsWith('anthropic')
  return !isSignedForm || (typeof signature === 'string' && signature !== '')
}
