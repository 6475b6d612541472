import type { Message, MessagePart, PartTexts } from '#core/models'
import { isCall, isThought, keptOf } from './kept.ts'

/** The blocks of one message. */
interface Piece {
  /** The JSON of the blocks with commas between. */
  readonly json: string
  /** Whether the last block can carry a mark for the provider's cache. */
  readonly marks: boolean
}

/** A piece, and what it was written from, because a layer may change a message later. */
interface Known extends Piece {
  readonly content: string
  /** The provider's id of the call that a result answers. */
  readonly id: string | undefined
}

/** Messages of one role in a row: the provider counts them as one. */
interface Turn extends Piece {
  readonly role: 'user' | 'assistant'
}

type Said = Extract<Message, { role: 'assistant' }>
type Result = Extract<Message, { role: 'tool' }>

/** Writes the conversations of one model. What was written of a message is kept for as long as the message lives. */
export class Conversations {
  readonly #origin: string
  readonly #known = new WeakMap<Message, Known>()

  /** `origin` is the model's: what it gave goes back as it came. */
  constructor(origin: string) {
    this.#origin = origin
  }

  /** The JSON of all messages but the system's, with commas between; marked for the provider's cache where `marked`. */
  write(messages: readonly Message[], parts: PartTexts | undefined, marked: boolean): string {
    const ids = new Map<string, string>()
    const turns: Turn[] = []
    let asked = 0
    for (const message of messages) {
      if (message.role === 'system') continue
      if (message.role === 'assistant') this.#learnIds(message, ids)
      const { json, marks } = this.#piece(message, ids, parts)
      if (!json) continue
      const role = message.role === 'assistant' ? 'assistant' : 'user'
      const last = turns.at(-1)
      // Results that stand in one message teach the model to call several tools at once.
      if (last?.role === role)
        turns[turns.length - 1] = { role, json: `${last.json},${json}`, marks }
      else turns.push({ role, json, marks })
      if (message.role === 'user') asked = turns.length - 1
    }
    return turns
      .map(({ role, json, marks }, at) => {
        const isEnd = at === turns.length - 1 || at === asked - 1
        const blocks = marked && marks && isEnd ? withMark(json) : json
        return `{"role":"${role}","content":[${blocks}]}`
      })
      .join()
  }

  #piece(message: Message, ids: ReadonlyMap<string, string>, parts?: PartTexts): Piece {
    const id = message.role === 'tool' ? ids.get(message.toolCallId) : undefined
    const known = this.#known.get(message)
    if (known && known.content === message.content && known.id === id) return known
    const piece = this.#written(message, id, parts)
    // Files are not kept: they would stay in memory for as long as the session.
    if (!hasParts(message)) this.#known.set(message, { ...piece, content: message.content, id })
    return piece
  }

  #written(message: Message, id: string | undefined, parts?: PartTexts): Piece {
    switch (message.role) {
      case 'assistant':
        return this.#said(message)
      case 'tool':
        return { json: resultJson(message, id ?? message.toolCallId, parts), marks: true }
      default: {
        const files = hasParts(message) ? message.parts.map((part) => fileJson(part, parts)) : []
        const text = message.content.trim() || files.length > 0 ? message.content : '(no words)'
        return { json: [...files, ...textJson(text)].join(), marks: true }
      }
    }
  }

  #said(message: Said): Piece {
    const kept = keptOf(message, this.#origin)
    // The provider refuses an answer that ends with a thought, as one that was cut off before its next word does.
    const end = kept?.findLastIndex((block) => !isThought(block))
    if (kept && end !== undefined)
      return { json: JSON.stringify(kept.slice(0, end + 1)).slice(1, -1), marks: true }
    const calls = (message.toolCalls ?? []).map(({ id, name, args }) =>
      JSON.stringify({ type: 'tool_use', id: plain(id), name: plain(name), input: inputOf(args) }),
    )
    return { json: [...textJson(message.content), ...calls].join(), marks: true }
  }

  /** Remembers the provider's own ids of a message's calls. */
  #learnIds(message: Said, ids: Map<string, string>): void {
    const { toolCalls } = message
    if (!toolCalls?.length) return
    const own = keptOf(message, this.#origin)?.filter(isCall)
    for (const [nth, { id }] of toolCalls.entries()) {
      const theirs = own?.[nth]?.id
      ids.set(id, typeof theirs === 'string' ? theirs : plain(id))
    }
  }
}

const mark = '"cache_control":{"type":"ephemeral"}'

/** A block or a tool with the mark up to which the provider keeps a request in its cache. */
export function withMark(json: string): string {
  return `${json.slice(0, -1)},${mark}}`
}

/** A text block; none for a text without a letter, which the provider refuses. */
function textJson(text: string): string[] {
  return text.trim() ? [`{"type":"text","text":${JSON.stringify(text)}}`] : []
}

function resultJson(message: Result, id: string, parts: PartTexts | undefined): string {
  const files = hasParts(message) ? message.parts.map((part) => fileJson(part, parts)) : []
  const content = [...textJson(message.content), ...files].join()
  const failed = message.failed ? ',"is_error":true' : ''
  return `{"type":"tool_result","tool_use_id":${JSON.stringify(plain(id))}${failed},"content":[${content}]}`
}

function fileJson(part: MessagePart, parts: PartTexts | undefined): string {
  return parts?.get(part) ?? JSON.stringify({ type: 'text', text: `[${part.type} is not there]` })
}

function hasParts(
  message: Message,
): message is Extract<Message, { role: 'user' | 'tool' }> & { parts: readonly MessagePart[] } {
  return (message.role === 'user' || message.role === 'tool') && Boolean(message.parts?.length)
}

/** An id or a name in the letters that the provider takes. */
function plain(text: string): string {
  return text.replace(/[^\w-]/g, '_').slice(0, 128) || 'unnamed'
}

/** Arguments of a call: what is no object stands as an empty one. */
function inputOf(args: unknown): unknown {
  return typeof args === 'object' && args !== null && !Array.isArray(args) ? args : {}
}
