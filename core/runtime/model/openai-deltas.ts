import { RuntimeError } from '../../errors.ts'
import type { Delta } from '../../plugin.ts'
import { callSlots } from './call-slots.ts'
import { providerFault, type Asked } from './provider-fault.ts'

/** Reads the chunks of one completion, in order, into deltas. */
export interface ChunkReader {
  /** One chunk, or a whole answer of a server that does not stream, as JSON text. */
  take(json: string, onto: Delta[]): void
  /** The provider said why it stopped: nothing but usage may follow. */
  readonly finished: boolean
  /** Held back to the end: some servers count up in every chunk. */
  readonly usage: Delta | undefined
}

/** As far as we look. Every field comes from a stranger, so each is checked where it is used. */
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

/** `limit` is in characters of text, reasoning and arguments together. */
export function chunkReader(asked: Asked, limit: number): ChunkReader {
  const calls = callSlots()
  let size = 0
  let finished = false
  let spoke = false
  let usage: Delta | undefined

  function count(text: string) {
    spoke = true
    size += text.length
    if (size > limit)
      throw new RuntimeError(
        'MODEL_ANSWER_TOO_LONG',
        `The answer of "${asked.model}" went past ${limit} characters.`,
      )
  }

  function speak(piece: Piece, onto: Delta[]) {
    const thought = piece.reasoning_content ?? piece.reasoning
    if (typeof thought === 'string' && thought) {
      count(thought)
      onto.push({ type: 'reasoning', text: thought })
    }
    for (const words of [piece.content, piece.refusal]) {
      if (typeof words === 'string') {
        if (!words) continue
        count(words)
        onto.push({ type: 'text', text: words })
      } else if (Array.isArray(words)) {
        for (const part of words) {
          if (part?.type === 'text') speak({ content: part.text }, onto)
        }
      }
    }
    if (!Array.isArray(piece.tool_calls)) return
    for (const call of piece.tool_calls as readonly (CallPiece | null)[]) {
      const { id, index, function: named } = call ?? {}
      const delta = calls({ index, id, name: named?.name, args: named?.arguments })
      if (!delta) continue
      count(delta.args ?? '')
      onto.push(delta)
    }
  }

  return {
    take(json, onto) {
      let chunk: Chunk | null
      try {
        chunk = JSON.parse(json)
      } catch (cause) {
        throw new RuntimeError(
          'MODEL_STREAM_BROKEN',
          `${asked.host} sent a chunk that is no JSON.`,
          {
            cause,
          },
        )
      }
      if (chunk?.error) throw providerFault({ text: json }, asked)
      const counted = chunk?.usage
      if (typeof counted?.prompt_tokens === 'number')
        usage = {
          type: 'usage',
          inputTokens: counted.prompt_tokens,
          outputTokens: Number(counted.completion_tokens) || 0,
        }
      const choice = chunk?.choices?.[0]
      // We ask for one choice: a server that sends more would interleave them.
      if (!choice || (choice.index ?? 0) !== 0) return
      const piece = choice.delta ?? choice.message
      if (piece) speak(piece, onto)
      if (!choice.finish_reason) return
      finished = true
      if (choice.finish_reason === 'content_filter' && !spoke)
        throw new RuntimeError(
          'MODEL_REFUSED',
          `${asked.host} refused to answer this for reasons of content.`,
        )
    },
    get finished() {
      return finished
    },
    get usage() {
      return usage
    },
  }
}
