import type { IMessage } from '../records.ts'
import type { Turn } from './turn.ts'

/** The messages of a chat that stand before its turn under way. */
export class History {
  messages: readonly IMessage[] = []
  /** A message that the server did not take, which no reading of the history drops. */
  declare unsent?: IMessage

  /** Leaves out what a turn tells itself. The history may have come before the chat knew the turn's message. */
  cut(turn: Turn): void {
    this.messages = turn.before(this.messages)
  }

  /** Adds what a turn said to the history. */
  append(turn: Turn): void {
    this.messages = [...this.messages, ...turn.messages]
  }

  /** Drops the message that the server did not take when the user sends its text again, after a payment for example. */
  dropUnsent(text: string): void {
    if (this.unsent?.content === text)
      this.messages = this.messages.filter((message) => message !== this.unsent)
    this.unsent = undefined
  }
}
