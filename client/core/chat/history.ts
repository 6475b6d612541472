import type { IMessage } from '../records.ts'
import { stopped, withResult } from './tool-call.ts'
import type { Turn } from './turn.ts'

/** The messages of a chat that stand before its turn under way. */
export class History {
  #messages: readonly IMessage[] = []
  #unsent: IMessage | undefined

  /** The messages as the chat shows them. */
  get messages(): readonly IMessage[] {
    return this.#messages
  }

  /** Takes the history as the server has it, without what the turn tells itself. */
  take(fresh: readonly IMessage[], turn: Turn | undefined, waitingCallId?: string): void {
    const before = turn?.before(fresh) ?? fresh
    const isOpen = (callId: string) => !!turn || callId === waitingCallId
    const messages = reconciled(this.#messages, shown(before, isOpen))
    const unsent = this.#unsent
    const isKept =
      !unsent ||
      messages.some(({ type, content }) => type === 'human' && content === unsent.content)
    this.#messages = isKept ? messages : [...messages, unsent]
  }

  /** Puts other messages in the place of those that stood here. */
  replace(messages: readonly IMessage[]): void {
    this.#messages = messages
  }

  /** Leaves out what a turn tells itself. The history may have come before the chat knew the turn's message. */
  cut(turn: Turn): void {
    this.#messages = turn.before(this.#messages)
  }

  /** Adds what a turn said to the history. */
  append(turn: Turn): void {
    this.#messages = [...this.#messages, ...turn.messages]
  }

  /** Keeps a message that the server did not take, so that no reading of the history drops it. */
  keepUnsent(message: IMessage | undefined): void {
    this.#unsent = message
  }

  /** Drops the message that the server did not take when the user sends its text again, after a payment for example. */
  dropUnsent(text: string): void {
    if (this.#unsent?.content === text)
      this.#messages = this.#messages.filter((message) => message !== this.#unsent)
    this.#unsent = undefined
  }
}

/** The history as the chat shows it: a call that nobody carries out any more does not run on. */
const shown = (history: readonly IMessage[], isOpen: (callId: string) => boolean): IMessage[] =>
  history.map((message) => {
    const { toolCalls } = message
    if (!toolCalls) return message
    return {
      ...message,
      toolCalls: toolCalls.map((call) => (isOpen(call.id) ? call : stopped(withResult(call)))),
    }
  })

/** The fresh list, in which a message that says the same as before is the same object. */
const reconciled = (old: readonly IMessage[], fresh: readonly IMessage[]): readonly IMessage[] =>
  fresh.map((message, i) => {
    const before = old[i]
    return before && sayingOf(before) === sayingOf(message) ? before : message
  })

const sayingOf = ({ type, content, toolCalls, reasoning = '', isComplete }: IMessage): string =>
  JSON.stringify([
    type,
    content,
    toolCalls?.map(({ id, status, output }) => [id, status, output]),
    reasoning,
    isComplete,
  ])
