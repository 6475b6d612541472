import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Log } from '../../plugin.ts'
import {
  type Channels,
  checkedChannel,
  checkedPayload,
  type Listener,
  Listeners,
} from './channels.ts'
import { translated } from './database-errors.ts'
import { Client } from './postgres.ts'

/** How often the connection asks the database something: without traffic a dead socket can look alive for hours. */
const defaultHeartbeatMs = 15_000
const backoffMs = { first: 100, last: 5_000 }

/** PostgreSQL's LISTEN and NOTIFY, over a connection of its own that comes back by itself. */
export class PostgresChannels implements Channels {
  readonly #settings: pg.ClientConfig
  readonly #pool: pg.Pool
  readonly #log: Log
  readonly #heartbeatMs: number
  readonly #listeners: Listeners
  #client: Client | undefined
  #connecting: Promise<Client> | undefined
  #returning = false
  #said: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(
    settings: pg.ClientConfig,
    pool: pg.Pool,
    log: Log,
    heartbeatMs = defaultHeartbeatMs,
  ) {
    this.#heartbeatMs = heartbeatMs
    this.#settings = { ...settings, query_timeout: 5_000 }
    this.#pool = pool
    this.#log = log
    this.#listeners = new Listeners(log)
  }

  async listen(channel: string, onPayload: (payload: string) => void, onGap?: () => void) {
    const listener = { onPayload, onGap }
    this.#listeners.add(checkedChannel(channel), listener)
    const stop = () => this.#remove(channel, listener)
    try {
      await this.#say(await this.#connected(), `listen ${channel}`)
    } catch (error) {
      await stop()
      throw translated(error)
    }
    return stop
  }

  async notify(channel: string, payload: string): Promise<void> {
    checkedChannel(channel)
    checkedPayload(payload)
    try {
      await this.#pool.query('select pg_notify($1, $2)', [channel, payload])
    } catch (error) {
      throw translated(error)
    }
  }

  /** Breaks the connection as the death of the process would. */
  cut(): void {
    this.#closed = true
    this.#listeners.clear()
    this.#client?.connection.stream.destroy()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    await this.#hangUp()
  }

  async #remove(channel: string, listener: Listener): Promise<void> {
    if (!this.#listeners.remove(channel, listener)) return
    if (this.#listeners.channels.length === 0) return this.#hangUp()
    // When this fails the connection is broken, and the next one does not listen to the channel.
    if (this.#client) await this.#say(this.#client, `unlisten ${channel}`).catch(() => {})
  }

  async #hangUp(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.leave(1_000)
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
      this.#log.warn({ reason: message }, 'The connection that listens to the database broke')
    })
    client.on('notification', ({ channel, payload }) => {
      this.#listeners.deliver(channel, payload ?? '')
    })
    await client.connect()
    const beat = () => void this.#say(client, 'select 1').catch(() => {}) // a timeout ends the client itself
    const heartbeat = setInterval(beat, this.#heartbeatMs).unref()
    client.on('end', () => {
      clearInterval(heartbeat)
      if (this.#client !== client) return
      this.#client = undefined
      void this.#comeBack()
    })
    for (const channel of this.#listeners.channels) await this.#say(client, `listen ${channel}`)
    if (this.#closed) {
      await client.end()
      throw new Error('Connection terminated: the store is closed')
    }
    return (this.#client = client)
  }

  async #comeBack(): Promise<void> {
    if (this.#returning) return
    this.#returning = true
    for (let wait = backoffMs.first; !this.#closed && this.#listeners.channels.length > 0;) {
      await sleep(wait, undefined, { ref: false })
      try {
        await this.#connected()
        this.#listeners.tellGap()
        break
      } catch (error) {
        wait = Math.min(wait * 2, backoffMs.last)
        this.#log.debug({ reason: String(error), wait }, 'Still not listening to the database')
      }
    }
    this.#returning = false
  }
}
