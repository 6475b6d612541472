import type { Log } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import {
  type Hint,
  channelMessage,
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
  readonly #ofUser = new Map<string, Set<UserListener>>()
  #unsaid: NoticeWord[] = []
  #isSaying = false
  #stopListening: (() => Promise<void>) | undefined

  constructor(store: Pick<Store, 'kind' | 'listen' | 'notify'>, log: Log) {
    this.#store = store
    this.#log = log
  }

  /** Whether nobody listens to anybody. */
  get isEmpty(): boolean {
    return this.#ofUser.size === 0
  }

  /** Begins to hear other replicas; SQLite has one process, which hears itself without a channel. */
  async open(): Promise<void> {
    if (this.#store.kind !== 'postgres') return
    this.#stopListening = await this.#store.listen(
      noticeChannel,
      (message) => {
        for (const { to, hint } of readNoticeWords(message)) this.#deliver(to, hint)
      },
      // What other replicas sent meanwhile is lost. Readers find the notices in the database; hints are kept nowhere.
      () => this.wakeAll(),
    )
  }

  /** Adds a listener until the function that this returns is called. */
  add(did: string, listener: UserListener): () => void {
    const name = nameOnChannel(did)
    const listeners = this.#ofUser.get(name) ?? new Set()
    this.#ofUser.set(name, listeners.add(listener))
    return () => {
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

  async close(): Promise<void> {
    await this.#stopListening?.()
  }

  /** Sends the hints one message after the other, so that a run's beginning arrives before its end. */
  async #say(): Promise<void> {
    this.#isSaying = true
    while (this.#unsaid.length > 0) {
      const { message, count } = channelMessage(this.#unsaid)
      this.#unsaid.splice(0, count)
      try {
        await this.#store.notify(noticeChannel, message)
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
