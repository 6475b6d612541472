import {
  callName,
  callSlots,
  modelFault,
  type Asked,
  type Delta,
  type EarlyEnd,
  type FrameReader,
} from '#core/models'
import type { Block } from './kept.ts'
import { Counts, type Counted } from './usage.ts'

/** One event of the stream. A foreign server writes it, so each field is checked where it is used. */
interface Frame {
  readonly type?: unknown
  readonly index?: unknown
  readonly message?: { readonly usage?: Counted | null } | null
  readonly content_block?: Readonly<Record<string, unknown>> | null
  readonly delta?: Piece | null
  readonly usage?: Counted | null
}

interface Piece {
  readonly type?: unknown
  readonly text?: unknown
  readonly thinking?: unknown
  readonly signature?: unknown
  readonly partial_json?: unknown
  readonly stop_reason?: unknown
}

/** Reasons to stop before the model was done. */
const earlyEnds: ReadonlyMap<unknown, EarlyEnd> = new Map([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'content_filter'],
])

/** A block in the making. */
interface Growing {
  readonly block: Readonly<Record<string, unknown>>
  text: string
  signature: string
}

/** Reads the events of one answer, in order, into deltas. */
export class EventReader implements FrameReader {
  finished = false
  done = false
  /** How many characters are held for the provider, words not counted: they are counted as words. */
  kept = 0
  readonly #asked: Asked
  readonly #slots = callSlots()
  readonly #counts = new Counts()
  readonly #blocks = new Map<unknown, Growing>()
  #ended: EarlyEnd | undefined
  #spoke = false
  #called = false

  constructor(asked: Asked) {
    this.#asked = asked
  }

  /** Reads one event and adds its deltas to `onto`. */
  take(frame: Frame | null, onto: Delta[]): void {
    switch (frame?.type) {
      case 'message_start':
        if (frame.message?.usage) this.#counts.add(frame.message.usage)
        break
      case 'content_block_start':
        if (frame.content_block) this.#begin(frame.index, frame.content_block, onto)
        break
      case 'content_block_delta':
        if (frame.delta) this.#grow(frame.index, frame.delta, onto)
        break
      case 'message_delta':
        if (frame.usage) this.#counts.add(frame.usage)
        if (frame.delta?.stop_reason) this.#stop(frame.delta.stop_reason)
        break
      case 'message_stop':
        this.finished = this.done = true
    }
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

  #begin(index: unknown, block: Readonly<Record<string, unknown>>, onto: Delta[]): void {
    const { type, id, name, text: _, thinking: __, signature: ___, ...held } = block
    this.kept += JSON.stringify(held).length
    this.#blocks.set(index, { block, text: '', signature: '' })
    if (type === 'tool_use') {
      const delta = this.#slots({ index, id, name })
      if (delta) onto.push(delta)
      this.#spoke = this.#called = true
      return
    }
    // Some servers send the beginning of a block's text with the block.
    this.#grow(
      index,
      { text: block.text, thinking: block.thinking, signature: block.signature },
      onto,
    )
  }

  #grow(index: unknown, piece: Piece, onto: Delta[]): void {
    const growing = this.#blocks.get(index)
    if (!growing) return
    const { text, thinking, signature, partial_json: json } = piece
    if (typeof text === 'string' && text) {
      growing.text += text
      this.#spoke = true
      onto.push({ type: 'text', text })
    } else if (typeof thinking === 'string' && thinking) {
      growing.text += thinking
      this.kept += thinking.length
      onto.push({ type: 'reasoning', text: thinking })
    } else if (typeof json === 'string' && json) {
      growing.text += json
      this.kept += json.length
      const delta = this.#slots({ index, args: json })
      if (delta) onto.push(delta)
    }
    if (typeof signature === 'string' && signature) {
      growing.signature += signature
      this.kept += signature.length
    }
  }

  #stop(reason: unknown): void {
    const { host } = this.#asked
    // Words that were said before stand; calls of an answer that was refused are not carried out.
    if (reason === 'refusal' && (this.#called || !this.#spoke))
      throw modelFault('MODEL_REFUSED', host, 'refused to answer this for reasons of content.')
    if (reason === 'model_context_window_exceeded' && !this.#spoke)
      throw modelFault(
        'MODEL_CONTEXT_TOO_LONG',
        host,
        `has no room left for an answer of "${this.#asked.model}".`,
      )
    this.#ended = earlyEnds.get(reason)
    this.finished = true
  }

  /** What the provider wants back: the whole content, where it holds more than one text. */
  #back(): { readonly content: readonly Block[] } | undefined {
    const content = [...this.#blocks.values()].flatMap(whole)
    return content.some(({ type }) => type !== 'text') ? { content } : undefined
  }
}

/** A block as the provider takes it back; none for what it would refuse. */
function whole({ block, text, signature }: Growing): Readonly<Record<string, unknown>>[] {
  switch (block.type) {
    case 'text':
      return text.trim() ? [{ ...block, text }] : []
    case 'thinking':
      return signature ? [{ ...block, thinking: text, signature }] : []
    case 'tool_use': {
      const { name } = block
      return [
        {
          ...block,
          name: callName(typeof name === 'string' ? name : ''),
          input: inputOf(text, block.input),
        },
      ]
    }
    default:
      return [block]
  }
}

/** The arguments of a call. An answer that was cut off has half of them, and the call's result says so. */
function inputOf(json: string, given: unknown): unknown {
  let input: unknown = given
  try {
    if (json.trim()) input = JSON.parse(json)
  } catch {
    input = {}
  }
  return typeof input === 'object' && input !== null && !Array.isArray(input) ? input : {}
}
