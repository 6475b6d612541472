import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../../plugin.ts'
import type { Channels } from './channels.ts'

/** How long after a failure a channel is listened to again. */
const againMs = 1_000

interface Held {
  count: number
  isReady: boolean
  isOver: boolean
  stop?: () => Promise<void>
  readonly ready: Promise<void>
}

/** What this process wants to hear of: it listens to each channel once, for as long as somebody here has an interest in it. */
export class Interests {
  readonly #listen: Channels['listen']
  readonly #onPayload: (payload: string) => void
  readonly #log: Log
  readonly #held = new Map<string, Held>()
  #isClosed = false

  constructor(listen: Channels['listen'], onPayload: (payload: string) => void, log: Log) {
    this.#listen = listen
    this.#onPayload = onPayload
    this.#log = log
  }

  /** How many channels this process listens to. */
  get size(): number {
    return this.#held.size
  }

  /**
   * Listens to a channel until the function that this returns is called. `onReady` is called when messages arrive from then
   * on only: what came before was not heard, so look for it.
   */
  enter(channel: string, onReady?: () => void): () => void {
    let held = this.#held.get(channel)
    if (held === undefined && !this.#isClosed) this.#held.set(channel, (held = this.#hold(channel)))
    if (held === undefined) return () => {}
    held.count++
    if (onReady && !held.isReady) void held.ready.then(onReady)
    let hasLeft = false
    return () => {
      if (hasLeft) return
      hasLeft = true
      held.count--
      if (held.count > 0 || this.#held.get(channel) !== held) return
      this.#held.delete(channel)
      held.isOver = true
      void held.stop?.()
    }
  }

  /** Resolves once messages of a channel arrive in which somebody has an interest, or after a time. */
  async ready(channel: string, patienceMs: number): Promise<void> {
    const held = this.#held.get(channel)
    if (held === undefined || held.isReady) return
    await Promise.race([held.ready, sleep(patienceMs, undefined, { ref: false })])
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const all = [...this.#held.values()]
    this.#held.clear()
    for (const held of all) held.isOver = true
    await Promise.all(all.map(({ stop }) => stop?.()))
  }

  #hold(channel: string): Held {
    const { promise, resolve } = Promise.withResolvers<void>()
    const held: Held = { count: 0, isReady: false, isOver: false, ready: promise }
    const open = async () => {
      while (!held.isOver)
        try {
          const stop = await this.#listen(channel, this.#onPayload)
          if (held.isOver) return await stop()
          held.stop = stop
          held.isReady = true
          return resolve()
        } catch (err) {
          this.#log.debug({ err, channel }, 'A channel cannot be listened to; trying again')
          await sleep(againMs, undefined, { ref: false })
        }
    }
    void open()
    return held
  }
}
