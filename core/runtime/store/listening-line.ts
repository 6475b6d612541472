import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Log } from '../../plugin.ts'
import type { ChannelMessage } from './channels/channels.ts'
import { Client } from './postgres.ts'

/** How often the connection asks the database something: without traffic a dead socket can look alive for hours. */
const defaultHeartbeatMs = 15_000
const backoffMs = { first: 100, last: 5_000 }

/** What a listening line is made of. */
export interface ListeningLineOptions {
  readonly settings: pg.ClientConfig
  readonly log: Log
  readonly heartbeatMs?: number | undefined
  onMessage(message: ChannelMessage): void
  /** The connection was lost and is there again: messages may have been missed. */
  onBack(): void
}

/** A connection that does nothing but LISTEN, and comes back by itself. */
export class ListeningLine {
  readonly #options: ListeningLineOptions
  readonly #settings: pg.ClientConfig
  /** The channels that every new connection listens to, each with the answer to its LISTEN. */
  readonly #channels = new Map<string, Promise<unknown>>()
  #client: Client | undefined
  #connecting: Promise<Client> | undefined
  #returning = false
  #said: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(options: ListeningLineOptions) {
    this.#options = options
    this.#settings = { ...options.settings, query_timeout: 5_000 }
  }

  /** Listens to a channel, over a new connection where there is none. */
  async listen(channel: string): Promise<void> {
    if (!this.#client) await this.#connected()
    let heard = this.#channels.get(channel)
    if (heard === undefined) {
      heard = this.#say(await this.#connected(), `listen ${channel}`)
      this.#channels.set(channel, heard)
      heard.catch(() => {
        if (this.#channels.get(channel) === heard) this.#channels.delete(channel)
      })
    }
    await heard
  }

  /** Listens to no other channels than these any more. */
  async keep(channels: ReadonlySet<string>): Promise<void> {
    for (const channel of [...this.#channels.keys()])
      if (!channels.has(channel)) {
        this.#channels.delete(channel)
        // When this fails the connection is broken, and the next one does not listen to the channel.
        if (this.#client) await this.#say(this.#client, `unlisten ${channel}`).catch(() => {})
      }
  }

  /** Ends the connection and forgets the channels. */
  async rest(): Promise<void> {
    this.#channels.clear()
    await this.hangUp()
  }

  /** Ends the connection; a later `listen` makes a new one. */
  async hangUp(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.leave(1_000)
  }

  /** Breaks the connection as the death of the process would. */
  cut(): void {
    this.#closed = true
    this.#client?.connection.stream.destroy()
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.hangUp()
  }

  /** Sends one statement at a time: pg wants the answer before the next question. */
  #say(client: Client, sql: string): Promise<unknown> {
    const said = this.#said.then(() => client.query(sql))
    this.#said = said.catch(() => {}) // the caller gets the error, the next statement does not
    return said
  }

  #connected(): Promise<Client> {
    if (this.#client) return Promise.resolve(this.#client)
    this.#connecting ??= this.#connect().finally(() => (this.#connecting = undefined))
    return this.#connecting
  }

  async #connect(): Promise<Client> {
    const client = new Client(this.#settings)
    client.on('error', ({ message }) => {
      this.#options.log.warn(
        { reason: message },
        'The connection that listens to the database broke',
      )
    })
    client.on('notification', ({ channel, payload }) => {
      this.#options.onMessage({ channel, payload: payload ?? '' })
    })
    await client.connect()
    const beat = () => void this.#say(client, 'select 1').catch(() => {}) // a timeout ends the client itself
    const heartbeat = setInterval(beat, this.#options.heartbeatMs ?? defaultHeartbeatMs).unref()
    client.on('end', () => {
      clearInterval(heartbeat)
      if (this.#client !== client) return
      this.#client = undefined
      void this.#comeBack()
    })
    for (const channel of [...this.#channels.keys()]) {
      const heard = this.#say(client, `listen ${channel}`)
      this.#channels.set(channel, heard)
      await heard
    }
    if (this.#closed) {
      await client.end()
      throw new Error('Connection terminated: the store is closed')
    }
    return (this.#client = client)
  }

  async #comeBack(): Promise<void> {
    if (this.#returning) return
    this.#returning = true
    for (let wait = backoffMs.first; !this.#closed && this.#channels.size > 0;) {
      await sleep(wait, undefined, { ref: false })
      try {
        await this.#connected()
        this.#options.onBack()
        break
      } catch (error) {
        wait = Math.min(wait * 2, backoffMs.last)
        this.#options.log.debug(
          { reason: String(error), wait },
          'Still not listening to the database',
        )
      }
    }
    this.#returning = false
  }
}
