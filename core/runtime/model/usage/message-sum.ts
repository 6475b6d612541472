import type { Message } from '../../../plugin.ts'

interface Known {
  readonly messages: Message[]
  sum: number
}

/**
 * Sums up a figure over the messages of a conversation. A conversation mostly grows at its end, and is asked about anew for each
 * step of each turn, so only what is new is looked at: of the rest it is enough that the messages are the same objects. What a
 * message says of itself does not change for as long as it is that object.
 */
export class MessageSum {
  readonly #figure: (message: Message) => number
  /** What is known of a conversation, by its first message after the system's, which many conversations share. */
  readonly #known = new WeakMap<Message, Known>()

  constructor(figure: (message: Message) => number) {
    this.#figure = figure
  }

  /** The sum over all the messages. */
  of(all: readonly Message[]): number {
    const [system] = all
    const from = system?.role === 'system' ? 1 : 0
    const outside = system && from > 0 ? this.#figure(system) : 0
    const first = all[from]
    if (!first) return outside
    let known = this.#known.get(first)
    if (!known || !isBeginning(known.messages, all, from))
      this.#known.set(first, (known = { messages: [], sum: 0 }))
    for (const message of all.slice(from + known.messages.length)) {
      known.sum += this.#figure(message)
      known.messages.push(message)
    }
    return outside + known.sum
  }

  /** Whether the figure of any of the messages is more than nothing. */
  isAny(all: readonly Message[]): boolean {
    return this.of(all) > 0
  }
}

function isBeginning(known: readonly Message[], all: readonly Message[], from: number): boolean {
  if (known.length > all.length - from) return false
  for (let i = 0; i < known.length; i++) if (known[i] !== all[i + from]) return false
  return true
}
