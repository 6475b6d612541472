import { type RawBuilder, sql } from 'kysely'
import type { Log } from '../../../plugin.ts'

/** Short messages between the processes that share a database: ids, never bodies. */
export interface Channels {
  /**
   * Resolves, to a function that stops listening, once messages can arrive. `onGap` is called when the connection
   * was lost and is there again: messages may have been missed, so read again what matters.
   */
  listen(
    channel: string,
    onPayload: (payload: string) => void,
    onGap?: () => void,
  ): Promise<() => Promise<void>>
  /** Tells every listener, those of this process too, some time after the promise resolves. */
  notify(channel: string, payload: string): Promise<void>
  close(): Promise<void>
}

/** How often a server notifies itself, and how long it waits to hear that. */
export interface SelfTest {
  readonly everyMs: number
  readonly patienceMs: number
}

/** How the messages of other processes are heard: from the database, from Redis, or by looking into a table. */
export type ListeningWay = 'direct' | 'redis' | 'polling'

/** A message and its channel. */
export interface ChannelMessage {
  readonly channel: string
  readonly payload: string
}

/**
 * Tells listeners at the commit of a PostgreSQL statement. The column has to be called `told`, or `told_too` where a
 * statement tells two things: from there the driver passes the message on to processes that do not hear NOTIFY.
 */
export const tellsThat = (
  channel: string,
  payload: RawBuilder<unknown> | string,
): RawBuilder<string> =>
  sql<string>`concat(pg_notify(${channel}, ${payload}), ${channel}::text || ' ' || ${payload})`

/** The same as text, for a payload that is SQL itself. */
export const tellingText = (channel: string, payload: string): string =>
  `concat(pg_notify('${checkedChannel(channel)}', ${payload}), '${channel} ' || ${payload})`

/** What a channel calls with its messages. */
export interface Listener {
  onPayload(payload: string): void
  onGap?(): void
}

/** The listeners of each channel. When one throws, that becomes a line in the log and the others are still called. */
export class Listeners {
  readonly #byChannel = new Map<string, Set<Listener>>()
  readonly #log: Log

  constructor(log: Log) {
    this.#log = log
  }

  get channels(): string[] {
    return [...this.#byChannel.keys()]
  }

  add(channel: string, listener: Listener): void {
    const others = this.#byChannel.get(channel)
    if (others) others.add(listener)
    else this.#byChannel.set(channel, new Set([listener]))
  }

  /** Returns whether nobody listens to the channel any more. */
  remove(channel: string, listener: Listener): boolean {
    const listeners = this.#byChannel.get(channel)
    listeners?.delete(listener)
    return listeners?.size === 0 && this.#byChannel.delete(channel)
  }

  clear(): void {
    this.#byChannel.clear()
  }

  deliver(channel: string, payload: string): void {
    for (const listener of this.#byChannel.get(channel) ?? [])
      this.#call(channel, () => listener.onPayload(payload))
  }

  tellGap(): void {
    for (const [channel, listeners] of this.#byChannel)
      for (const listener of listeners) this.#call(channel, () => listener.onGap?.())
  }

  #call(channel: string, listener: () => void): void {
    try {
      listener()
    } catch (error) {
      this.#log.error({ err: error, channel }, 'A listener of a channel threw')
    }
  }
}

/** Channels for a database that one process has alone: there is no connection that could break. */
export function localChannels(log: Log): Channels {
  const listeners = new Listeners(log)
  return {
    async listen(channel, onPayload, onGap) {
      const listener = { onPayload, onGap }
      listeners.add(checkedChannel(channel), listener)
      return async () => void listeners.remove(channel, listener)
    },
    async notify(channel, payload) {
      checkedChannel(channel)
      checkedPayload(payload)
      // In a later tick, as from a database server: code that expects the message within the call would break there.
      setImmediate(() => listeners.deliver(channel, payload))
    },
    async close() {
      listeners.clear()
    },
  }
}

/** A channel name stands in SQL as it is, so it is a plain lower-case identifier. */
export function checkedChannel(channel: string): string {
  if (/^[a-z][a-z0-9_]{0,62}$/.test(channel)) return channel
  throw new TypeError(
    `"${channel}" is not a channel: lower-case letters, digits and _, 63 at most.`,
  )
}

/** PostgreSQL takes less than 8000 bytes. */
export function checkedPayload(payload: string): void {
  const bytes = Buffer.byteLength(payload)
  if (bytes < 8000) return
  throw new RangeError(
    `A message on a channel has less than 8000 bytes, this one ${bytes}: send an id.`,
  )
}
