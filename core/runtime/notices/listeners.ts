import type { Log } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import { type Telling, telling } from '../store/channels/channels.ts'
import { Interests } from '../store/channels/interests.ts'
import {
  type Hint,
  channelMessage,
  channelOfUser,
  nameOnChannel,
  noticeChannel,
  type NoticeWord,
  readNoticeWords,
} from './words.ts'

/** Somebody in this process who reads the events of one user. */
export interface UserListener {
  /** The user may have a new notice. */
  wake(): void
  hint(hint: Hint): void
}

/** How many hints may wait for a channel that is slow or away; beyond that, the oldest are dropped. */
const mostUnsaid = 1_000

/** The readers of each user's events in this process; tells other replicas of hints, and hears theirs. */
export class UserListeners {
  readonly #store: Pick<Store, 'kind' | 'listen' | 'notify'>
  readonly #log: Log
  /** The users whose events are read here, on other replicas' channels; SQLite has no other replicas. */
  readonly #interests: Interests | undefined
  readonly #ofUser = new Map<string, Set<UserListener>>()
  #unsaid: NoticeWord[] = []
  #isSaying = false
  #stopListening: (() => Promise<void>) | undefined

  constructor(store: Pick<Store, 'kind' | 'listen' | 'notify'>, log: Log) {
    this.#store = store
    this.#log = log
    if (store.kind !== 'postgres') return
    const hear = (message: string) => {
      for (const { to, hint } of readNoticeWords(message)) this.#deliver(to, hint)
    }
    this.#interests = new Interests((...to) => store.listen(...to), hear, log)
  }

  /** Whether nobody listens to anybody. */
  get isEmpty(): boolean {
    return this.#ofUser.size === 0
  }

  /** Begins to hear other replicas; SQLite has one process, which hears itself without a channel. */
  async open(): Promise<void> {
    if (this.#store.kind !== 'postgres') return
    // Nothing is said here: this channel only tells that what other replicas sent for a time is lost. Readers find the
    // notices in the database; hints are kept nowhere.
    const nothing = () => {}
    this.#stopListening = await this.#store.listen(noticeChannel, nothing, () => this.wakeAll())
  }

  /** Adds a listener until the function that this returns is called. */
  add(did: string, listener: UserListener): () => void {
    const name = nameOnChannel(did)
    const listeners = this.#ofUser.get(name) ?? new Set()
    this.#ofUser.set(name, listeners.add(listener))
    const leave = this.#interests?.enter(channelOfUser(name), () => this.#deliver(name))
    return () => {
      leave?.()
      listeners.delete(listener)
      if (listeners.size === 0 && this.#ofUser.get(name) === listeners) this.#ofUser.delete(name)
    }
  }

  /** A user may have a new notice. */
  wake(did: string): void {
    this.#deliver(nameOnChannel(did))
  }

  /** Any user may have a new notice. */
  wakeAll(): void {
    for (const listeners of this.#ofUser.values()) for (const { wake } of listeners) wake()
  }

  /** Sends a hint to the user's listeners at every replica, without waiting and without keeping the hint. */
  tell(did: string, hint: Hint): void {
    if (this.#store.kind !== 'postgres') {
      this.#deliver(nameOnChannel(did), hint)
      return
    }
    if (this.#unsaid.length >= mostUnsaid) this.#unsaid.shift()
    this.#unsaid.push({ to: nameOnChannel(did), hint })
    if (!this.#isSaying) void this.#say()
  }

  /** A few hints for a statement to tell. Undefined on SQLite, and where hints wait to be told, for none may overtake another. */
  telling(did: string, hints: readonly Hint[]): Telling | undefined {
    if (this.#store.kind !== 'postgres' || this.#isSaying) return undefined
    const to = nameOnChannel(did)
    const channel = channelOfUser(to)
    const words = hints.map((hint) => channelMessage([{ to, hint }]).message)
    // The driver reads a message a line.
    const told = words.map((word) => `${channel} ${word}`).join('\n')
    return { ...telling(channel, words.join('\n')), told }
  }

  async close(): Promise<void> {
    await this.#interests?.close()
    await this.#stopListening?.()
  }

  /** Sends the hints one message after the other, so that a run's beginning arrives before its end. */
  async #say(): Promise<void> {
    this.#isSaying = true
    for (let word = this.#unsaid[0]; word !== undefined; word = this.#unsaid[0]) {
      const { to } = word
      const ofUser = this.#unsaid.filter((other) => other.to === to)
      const { message, count } = channelMessage(ofUser)
      const said = new Set(ofUser.slice(0, count))
      this.#unsaid = this.#unsaid.filter((other) => !said.has(other))
      try {
        await this.#store.notify(channelOfUser(to), message)
      } catch (err) {
        this.#log.debug({ err }, 'Other replicas were not told of hints')
      }
    }
    this.#isSaying = false
  }

  #deliver(name: string, hint?: Hint): void {
    for (const listener of this.#ofUser.get(name) ?? [])
      if (hint) listener.hint(hint)
      else listener.wake()
  }
}
