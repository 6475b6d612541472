import { createHash } from 'node:crypto'
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

/**
 * How the messages of other processes are heard: from the bus that BUS_URL names, from the database, from the Redis of
 * REDIS_URL, or by looking into a table.
 */
export type ListeningWay = 'bus' | 'direct' | 'redis' | 'polling'

/** A message and its channel. */
export interface ChannelMessage {
  readonly channel: string
  readonly payload: string
}

/**
 * A channel whose listeners hear only what is about one thing: a session, a run, a user. A process listens to just those
 * that somebody here follows.
 */
export const channelOf = (name: string, id: string): string => `${name}.${plainKey(id)}`

/** An id as it may stand in the name of a channel: others become digests. */
const plainKey = (id: string): string =>
  /^[\w-]{1,64}$/.test(id) ? id : createHash('sha256').update(id).digest('base64url')

/** How many channels of the database all keys of one name share: a LISTEN for each key would be a statement for each run. */
const sharedChannels = 64

/** A message as PostgreSQL gets it, and as the driver passes it on to processes that do not hear NOTIFY. */
export interface Telling {
  readonly to: string
  readonly payload: string
  /** The channel and the message, with a space between. */
  readonly told: string
}

/** How a message goes through the database. */
export function telling(channel: string, payload: string): Telling {
  checkedPayload(payload)
  const [, key] = checkedChannel(channel).split('.')
  return {
    to: channelInDatabase(channel),
    payload: key === undefined ? payload : `${key} ${payload}`,
    told: `${channel} ${payload}`,
  }
}

/** The channel of the database to which a channel belongs. */
export function channelInDatabase(channel: string): string {
  const [name = '', key] = channel.split('.')
  if (key === undefined) return name
  let hash = 0
  for (let i = 0; i < key.length; i++) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) >>> 0
  return `${name}__${hash % sharedChannels}`
}

/** A message of the database with the channel that it was meant for. */
export function fromDatabase({ channel, payload }: ChannelMessage): ChannelMessage {
  const [, name] = /^(.+)__\d+$/.exec(channel) ?? []
  if (name === undefined) return { channel, payload }
  const at = payload.indexOf(' ')
  return { channel: `${name}.${payload.slice(0, at)}`, payload: payload.slice(at + 1) }
}

/**
 * Tells listeners at the commit of a PostgreSQL statement. The column has to be called `told`, or `told_too` where a
 * statement tells two things: from there the driver passes the message on to processes that do not hear NOTIFY.
 */
export const tellsThat = (
  channel: string,
  payload: RawBuilder<unknown> | string,
): RawBuilder<string> =>
  typeof payload === 'string'
    ? tellsAs(telling(channel, payload))
    : sql<string>`case when pg_notify(${channelInDatabase(channel)}::text, (${payload})::text) is null then null
        else ${channel}::text || ' ' || ${payload} end`

/** The same for a message whose values a prepared statement fills in, or which stands in a row. */
export const tellsAs = ({
  to,
  payload,
  told,
}: Record<keyof Telling, string | null | RawBuilder<unknown>>) =>
  sql<string>`case when pg_notify(${to}::text, ${payload}::text) is null then null else ${told}::text end`

/** What rows say that they have told, a message a line: see `told`. */
export const toldIn = (rows: readonly Readonly<Record<string, unknown>>[]): ChannelMessage[] =>
  rows.flatMap((row) =>
    [row.told, row.told_too].flatMap((text) =>
      (typeof text === 'string' ? text.split('\n') : []).flatMap((line) => {
        const [, channel, payload] = /^([\w.-]+) (.*)$/.exec(line) ?? []
        return channel !== undefined && payload !== undefined ? [{ channel, payload }] : []
      }),
    ),
  )

/** The columns of a list of messages, each with the run for which it is told. */
export const tellingColumns = 'run_id text, to_channel text, payload text, told text'

/** The same for the rows `m` of such a list, as text. */
export const tellsEach = `string_agg(case when pg_notify(m.to_channel::text, m.payload::text) is null then null
  else m.told end, E'\\n')`

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

  deliver({ channel, payload }: ChannelMessage): void {
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
      setImmediate(() => listeners.deliver({ channel, payload }))
    },
    async close() {
      listeners.clear()
    },
  }
}

/** A channel name stands in SQL as it is, so it is a plain lower-case identifier; a key may follow, which does not. */
export function checkedChannel(channel: string): string {
  // Two underlines in a name would be read as the end of it; a key is free to have them.
  if (/^(?!\w*__)[a-z][a-z0-9_]{0,62}(\.[\w-]{1,64})?$/.test(channel)) return channel
  throw new TypeError(
    `"${channel}" is not a channel: lower-case letters, digits and _, 63 at most, and perhaps a key.`,
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
