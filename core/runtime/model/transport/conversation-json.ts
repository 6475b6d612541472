import type { Message } from '../../../plugin.ts'
import { goesOn, joinNeighbours } from './neighbours.ts'

/** The JSON of a conversation that was sent, with the messages behind it. */
interface Sent {
  readonly messages: readonly Message[]
  /** The contents of the messages when they were sent, because a layer may change them later. */
  readonly contents: readonly string[]
  readonly text: string
}

/** How many messages a look-up goes back. Between two requests a turn adds fewer messages, unless it makes very many calls. */
const lookBack = 64

/**
 * Writes conversations as JSON, message by message with commas between them, for one model. The next request repeats a
 * conversation and adds to it, so only what is new is written. There is one text for each conversation, and it lives as long as
 * the messages do.
 */
export class ConversationJson {
  readonly #toJson: (message: Message) => string
  /** The conversations that were sent, by their last message. */
  readonly #sent = new WeakMap<Message, Sent>()
  /** The JSON of system prompts, and the text of which it was made: the prompt of a turn is long, and mostly that of the last. */
  readonly #prompts = new WeakMap<Message, { readonly content: string; readonly json: string }>()

  /** `toJson` writes one message. An empty text leaves the message out. */
  constructor(toJson: (message: Message) => string) {
    this.#toJson = toJson
  }

  /** The JSON of all messages, of which only the new ones are written. */
  write(all: readonly Message[]): string {
    const system = all[0]?.role === 'system' ? all[0] : undefined
    const messages = system ? all.slice(1) : all
    const last = messages.at(-1)
    if (!last) return system ? this.#prompt(system) : ''
    const known = this.#knownPart(messages)
    let text = known?.text ?? ''
    for (const message of joinNeighbours(messages.slice(known?.messages.length))) {
      const json = this.#toJson(message)
      if (json) text += `${text && ','}${json}`
    }
    flatten(text)
    if (known) this.#sent.delete(known.messages.at(-1)!)
    this.#sent.set(last, { messages, contents: messages.map(({ content }) => content), text })
    return system ? `${this.#prompt(system)},${text}` : text
  }

  #prompt(system: Message): string {
    const known = this.#prompts.get(system)
    if (known?.content === system.content) return known.json
    const json = this.#toJson(system)
    this.#prompts.set(system, { content: system.content, json })
    return json
  }

  #knownPart(messages: readonly Message[]): Sent | undefined {
    const from = Math.max(0, messages.length - lookBack)
    for (let i = messages.length - 1; i >= from; i--) {
      // A text whose last message goes on in the next one ends in the middle of what is now one message.
      if (goesOn(messages[i], messages[i + 1])) continue
      const known = this.#sent.get(messages[i]!)
      if (known?.messages.length === i + 1 && isStillSo(known, messages)) return known
    }
    return undefined
  }
}

/**
 * Has V8 make one piece of a text that was put together from many. The text begins each later request of its conversation, and
 * would be put together anew for each of them.
 */
function flatten(text: string): void {
  text.charCodeAt(0)
}

/** Whether the messages begin with those that were sent, and their contents have not changed since. */
function isStillSo({ messages, contents }: Sent, now: readonly Message[]): boolean {
  for (let i = 0; i < messages.length; i++)
    if (messages[i] !== now[i] || contents[i] !== now[i]!.content) return false
  return true
}
