import { callName, type Message, type MessagePart, type PartTexts } from '#core/models'
import { isCall, keptOf } from './kept.ts'

/** What was written of a message, and what it was written from, because a layer may change a message later. */
interface Known {
  readonly content: string
  readonly json: string
}

/** What stands in one content of the wire. */
interface Content {
  readonly role: 'user' | 'model'
  readonly isResult: boolean
  json: string
  /** What follows the results: files that tools gave. */
  files: string
}

type Said = Extract<Message, { role: 'assistant' }>
type Result = Extract<Message, { role: 'tool' }>
type Asked = Extract<Message, { role: 'user' }>

/** What the provider documents for a call that another model made: such a call has no signature of its own. */
const noSignature = 'skip_thought_signature_validator'

/** Writes the conversations of one model. What was written of a message is kept for as long as the message lives. */
export class Conversations {
  readonly #origin: string
  readonly #known = new WeakMap<Message, Known>()

  /** `origin` is the model's: what it gave goes back as it came. */
  constructor(origin: string) {
    this.#origin = origin
  }

  /** The JSON of all messages but the system's, with commas between; no two of one role in a row where `alternates`. */
  write(messages: readonly Message[], parts: PartTexts | undefined, alternates: boolean): string {
    const ids = new Map<string, unknown>()
    const contents: Content[] = []
    for (const message of messages) {
      if (message.role === 'system') continue
      if (message.role === 'assistant') this.#learnIds(message, ids)
      const json = this.#json(message, ids, parts)
      if (!json) continue
      const role = message.role === 'assistant' ? 'model' : 'user'
      const isResult = message.role === 'tool'
      const files = isResult ? filesOf(message, parts) : ''
      const last = contents.at(-1)
      // The results of a step stand in one content, as its calls do.
      const joins = last?.role === role && (alternates || (isResult && last.isResult))
      if (!joins) contents.push({ role, isResult, json, files })
      else {
        last.json += `,${json}`
        last.files += files
      }
    }
    return contents
      .map(({ role, json, files }) => `{"role":"${role}","parts":[${json}${files}]}`)
      .join()
  }

  #json(message: Message, ids: ReadonlyMap<string, unknown>, parts?: PartTexts): string {
    if (message.role === 'system') return ''
    if (message.role === 'tool') return resultJson(message, ids.get(message.toolCallId))
    const known = this.#known.get(message)
    if (known && known.content === message.content) return known.json
    // Files are not kept: they would stay in memory for as long as the session.
    if (message.role === 'user' && message.parts?.length) return askedJson(message, parts)
    const json = message.role === 'assistant' ? this.#said(message) : askedJson(message)
    this.#known.set(message, { content: message.content, json })
    return json
  }

  #said(message: Said): string {
    const kept = keptOf(message, this.#origin)
    if (kept) return JSON.stringify(kept).slice(1, -1)
    const said = message.content ? [{ text: message.content }] : []
    const calls = (message.toolCalls ?? []).map(({ name, args }, nth) => ({
      functionCall: { name: callName(name), args: argsOf(args) },
      ...(nth === 0 && { thoughtSignature: noSignature }),
    }))
    return [...said, ...calls].map((part) => JSON.stringify(part)).join()
  }

  /** Remembers the provider's own ids of a message's calls. */
  #learnIds(message: Said, ids: Map<string, unknown>): void {
    const { toolCalls } = message
    if (!toolCalls?.length) return
    const own = keptOf(message, this.#origin)?.filter(isCall)
    for (const [nth, { id }] of toolCalls.entries()) ids.set(id, own?.[nth]?.functionCall?.id)
  }
}

function askedJson({ content, parts = [] }: Asked, texts?: PartTexts): string {
  const files = parts.map((part) => fileJson(part, texts))
  const text = content.trim() || files.length > 0 ? content : '(no words)'
  return [...(text ? [JSON.stringify({ text })] : []), ...files].join()
}

function resultJson({ name, content, failed }: Result, id: unknown): string {
  const response = failed ? { error: content } : { output: content }
  const own = typeof id === 'string' && { id }
  return JSON.stringify({ functionResponse: { ...own, name: callName(name), response } })
}

/** The files that a tool gave, told apart by the name of the tool; each text begins with a comma. */
function filesOf({ name, parts = [] }: Result, texts: PartTexts | undefined): string {
  if (parts.length === 0) return ''
  const text = `What the call of "${name}" returned beside its text:`
  return `,${[JSON.stringify({ text }), ...parts.map((part) => fileJson(part, texts))].join()}`
}

function fileJson(part: MessagePart, texts: PartTexts | undefined): string {
  return texts?.get(part) ?? JSON.stringify({ text: `[${part.type} is not there]` })
}

/** Arguments of a call: what is no object stands as an empty one. */
function argsOf(args: unknown): unknown {
  return typeof args === 'object' && args !== null && !Array.isArray(args) ? args : {}
}
