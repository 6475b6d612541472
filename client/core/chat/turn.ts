import type { LiveReply } from '../../later/reply.ts'
import type { ChatUse } from '../page.ts'
import type { RunEnding } from '../events.ts'
import type { IMessage } from '../records.ts'
import type { RememberedRun } from './tab-memory.ts'

/** What is known of a turn when the chat begins to read it. */
export interface TurnStart {
  readonly requestId: string
  readonly runId?: string
  /** The user's message that began the turn, while the history does not have it. */
  readonly user?: IMessage
  /** Whether this tab began the turn: then the tools of this page are the turn's tools. */
  readonly isOurs: boolean
  /** What the component that sent the message lends this turn. */
  readonly use?: ChatUse
  /** The turn is the rest of an earlier run whose call a person answered. */
  readonly continues?: boolean
  /** The name of a request that the page itself sends again, should it not get through. */
  readonly once?: string
  /** Calls that this page began before it was reloaded. */
  readonly begun?: readonly string[]
}

/** One run that a chat reads, from the request that begins it to its end. */
export class Turn {
  declare readonly isOurs: boolean
  declare readonly use?: ChatUse
  declare requestId: string
  declare runId?: string
  declare user?: IMessage
  declare continues?: boolean
  declare once?: string
  /** The run, once its first event has come: from then on the turn tells the run's messages itself. */
  declare heard?: string
  /** What the run says, once the code that reads it is there. */
  declare reply?: LiveReply
  /** The user asked to stop the run. */
  declare isStopped?: boolean
  readonly #leaving = new AbortController()
  readonly #begun: Set<string>
  readonly #open = new Set<string>()

  constructor({ begun, ...start }: TurnStart) {
    Object.assign(this, start)
    this.#begun = new Set(begun)
  }

  /** Fires when the chat lets go of the turn. */
  get signal(): AbortSignal {
    return this.#leaving.signal
  }

  /** What stands behind the history: the user's message, and the reply as far as it goes. */
  get messages(): readonly IMessage[] {
    const { user, reply } = this
    return [user ?? [], reply?.messages ?? []].flat()
  }

  /** The messages of a history before this turn. What the turn tells itself is left out, but for the words that began it. */
  before(history: readonly IMessage[]): readonly IMessage[] {
    const { requestId, heard, user } = this
    // The server may have our words in the history before it has told us of the run that they began.
    const isOurs = ({ content, run }: IMessage) =>
      !heard && content === user?.content && run?.status === 'running'
    const at = history.findIndex(
      (message) =>
        message.id === requestId || (heard && message.run?.runId === heard) || isOurs(message),
    )
    if (at < 0) return this.reply?.before(history) ?? history
    if (history[at]?.type === 'human') this.user ??= history[at]
    return history.slice(0, at)
  }

  /** Notes that the page begins a call. False when the page must not: the call has begun, or is another tab's. */
  begin(callId: string): boolean {
    if (!this.isOurs || this.#begun.has(callId)) return false
    this.#begun.add(callId)
    this.#open.add(callId)
    return true
  }

  /** Whether this page began the call. */
  hasBegun(callId: string | undefined): boolean {
    return this.#begun.has(callId ?? '')
  }

  /** Notes that the server has the result of a call. */
  close(callId: string): void {
    this.#open.delete(callId)
  }

  /** What the tab keeps of this turn over a reload; undefined while there is nothing to go on with. */
  get remembered(): RememberedRun | undefined {
    const { runId, requestId, isOurs } = this
    if (!isOurs || !runId) return undefined
    return { runId, requestId, begun: [...this.#begun], open: [...this.#open] }
  }

  /** Lets go of the stream. The words say how their run ended; a reply that has not come to its end by itself is cut short. */
  leave(ended?: RunEnding | null): void {
    const { user, requestId, runId = requestId } = this
    this.#leaving.abort()
    if (ended && user) this.user = { ...user, run: { runId, status: ended } }
    if (ended !== 'finished' && ended !== 'waiting') this.reply?.end(ended)
  }
}
