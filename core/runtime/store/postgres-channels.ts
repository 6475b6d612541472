import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import type { Log } from '../../plugin.ts'
import {
  type ChannelMessage,
  type Channels,
  checkedChannel,
  checkedPayload,
  type Listener,
  type ListeningWay,
  Listeners,
  type SelfTest,
} from './channels/channels.ts'
import { type Ask, ChannelHearers } from './channels/hearers.ts'
import { Outbox, Polling } from './channels/polling.ts'
import { RedisBus } from './channels/redis.ts'
import { translated } from './database-errors.ts'
import { ListeningLine } from './listening-line.ts'

const usualSelfTest: SelfTest = { everyMs: 60_000, patienceMs: 2_000 }
/** The channel on which a process says that it cannot listen to the others, or that it can again. */
const hearersChannel = 'kernel_hearers'

/** What the channels of a PostgreSQL are made of. */
export interface PostgresChannelsOptions {
  readonly pool: pg.Pool
  /** The settings of the connection that listens. */
  readonly settings: pg.ClientConfig
  /** Whether these lead to another address than the pool's, which may be wrong while the database is well. */
  readonly isOtherAddress?: boolean
  readonly log: Log
  readonly redisUrl?: string | undefined
  readonly selfTest?: SelfTest | undefined
  readonly heartbeatMs?: number
  /** Makes the tables of those who cannot listen. */
  migrate(): Promise<unknown>
}

/**
 * PostgreSQL's LISTEN and NOTIFY. A pooler may take LISTEN without a word and never bring a message. Therefore the process
 * notifies itself, and where it does not hear that, it hears the others by Redis or by looking into a table; those who hear
 * then tell it there too. Messages may be lost on the way from one to the other: then listeners are told of a gap.
 */
export class PostgresChannels implements Channels {
  readonly #options: PostgresChannelsOptions
  readonly #log: Log
  readonly #selfTest: SelfTest
  readonly #listeners: Listeners
  readonly #line: ListeningLine
  readonly #hearers: ChannelHearers
  readonly #outbox: Outbox
  readonly #ask: Ask
  /** The channel on which only this process talks to itself. */
  readonly #own = `kernel_self_${randomUUID().replaceAll('-', '')}`
  #awaited: { readonly word: string; heard(): void } | undefined
  #way: ListeningWay = 'direct'
  #polling: Polling | undefined
  #redis: RedisBus | undefined
  #begun: Promise<void> | undefined
  #isTested = false
  #checking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: PostgresChannelsOptions) {
    const { pool, settings, log, selfTest = usualSelfTest, heartbeatMs } = options
    this.#options = options
    this.#log = log
    this.#selfTest = selfTest
    this.#listeners = new Listeners(log)
    this.#ask = async (sql, values = []) => (await pool.query(sql, [...values])).rows
    this.#hearers = new ChannelHearers(this.#ask, log, this.#own, selfTest.everyMs)
    this.#outbox = new Outbox(this.#ask, log)
    this.#line = new ListeningLine({
      settings,
      log,
      heartbeatMs,
      channels: () => this.#channels,
      onMessage: (message) => this.#arrived(message, 'direct'),
      onBack: () => this.#listeners.tellGap(),
    })
  }

  /** How this process hears the others. */
  get way(): ListeningWay {
    return this.#way
  }

  /** Whether somebody hears in another way than from the database, this process or another one. */
  get isTelling(): boolean {
    return this.#way !== 'direct' || this.#hearers.others.size > 0
  }

  async listen(channel: string, onPayload: (payload: string) => void, onGap?: () => void) {
    const listener = { onPayload, onGap }
    this.#listeners.add(checkedChannel(channel), listener)
    const stop = () => this.#remove(channel, listener)
    try {
      await (this.#begun ??= this.#begin())
      if (this.#way === 'direct') await this.#line.listen(channel)
      else await this.#redis?.subscribe([channel])
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
      await this.#ask('select pg_notify($1, $2)', [channel, payload])
    } catch (error) {
      throw translated(error)
    }
    this.told([{ channel, payload }])
  }

  /** Passes on what a statement has told by NOTIFY, to those who do not hear that. */
  told(messages: readonly ChannelMessage[]): void {
    if (this.#closed || messages.length === 0) return
    const { others } = this.#hearers
    if (this.#way === 'polling' || others.has('polling')) this.#outbox.add(messages)
    if (this.#way === 'redis' || others.has('redis')) this.#redis?.tell(messages)
  }

  /** Breaks the connections as the death of the process would. */
  cut(): void {
    this.#stop()
    this.#line.cut()
  }

  async close(): Promise<void> {
    this.#stop()
    await Promise.all([this.#line.close(), this.#hearers.leave()])
  }

  #stop(): void {
    this.#closed = true
    clearInterval(this.#timer)
    this.#listeners.clear()
    this.#polling?.close()
    this.#redis?.close()
  }

  get #channels(): string[] {
    const { channels } = this.#listeners
    return channels.length > 0 ? [...channels, this.#own, hearersChannel] : []
  }

  async #remove(channel: string, listener: Listener): Promise<void> {
    if (!this.#listeners.remove(channel, listener)) return
    if (this.#listeners.channels.length > 0) {
      await this.#line.unlisten(channel)
      await this.#redis?.unsubscribe(channel).catch(() => {})
      return
    }
    clearInterval(this.#timer)
    this.#begun = undefined
    this.#isTested = false
    await this.#line.hangUp()
  }

  async #begin(): Promise<void> {
    try {
      await this.#checkOnce()
      if (this.#closed) return
      this.#timer = setInterval(() => void this.check(), this.#selfTest.everyMs).unref()
    } catch (error) {
      this.#begun = undefined
      throw error
    }
  }

  /** Finds out anew how this process hears. */
  async check(): Promise<void> {
    try {
      await this.#checkOnce()
    } catch (err) {
      if (!this.#closed) this.#log.debug({ err }, 'Listening could not be tested; trying again')
    }
  }

  #checkOnce(): Promise<void> {
    this.#checking ??= this.#check().finally(() => (this.#checking = undefined))
    return this.#checking
  }

  async #check(): Promise<void> {
    let isHeard = await this.#isHeardByLine()
    if (!isHeard && this.#isTested) {
      await this.#line.hangUp()
      isHeard = await this.#isHeardByLine()
    }
    this.#isTested = true
    if (this.#closed || this.#channels.length === 0) return
    if (isHeard) await this.#goDirect()
    else await this.#goRound()
    await this.#hearers.look()
    if (this.#hearers.others.has('redis')) await this.#openRedis()
  }

  /** Whether a message to itself comes back by the line. Rejects when the database is away. */
  async #isHeardByLine(): Promise<boolean> {
    try {
      await this.#line.listen(this.#own)
      await this.#line.listen(hearersChannel)
    } catch (error) {
      if (!this.#options.isOtherAddress) throw translated(error)
      this.#log.warn({ err: error }, 'DATABASE_LISTEN_URL cannot be used')
      return false
    }
    return this.#comesBack((word) =>
      this.#ask('select pg_notify($1, $2)', [this.#own, word]).catch((error: unknown) => {
        throw translated(error)
      }),
    )
  }

  async #comesBack(send: (word: string) => Promise<unknown> | void): Promise<boolean> {
    const word = randomUUID()
    let late: NodeJS.Timeout | undefined
    const isHeard = new Promise<boolean>((resolve) => {
      this.#awaited = { word, heard: () => resolve(true) }
      late = setTimeout(resolve, this.#selfTest.patienceMs, false).unref()
    })
    try {
      await send(word)
      return await isHeard
    } finally {
      clearTimeout(late)
      this.#awaited = undefined
    }
  }

  #arrived({ channel, payload }: ChannelMessage, way: ListeningWay): void {
    if (channel === this.#own) {
      if (payload === this.#awaited?.word) this.#awaited.heard()
    } else if (channel === hearersChannel) void this.check()
    // A message may come by two ways; one of them counts.
    else if (way === this.#way) this.#listeners.deliver(channel, payload)
  }

  async #goDirect(): Promise<void> {
    if (this.#way === 'direct') return
    for (const channel of this.#listeners.channels) await this.#line.listen(channel)
    this.#way = 'direct'
    this.#polling?.close()
    this.#polling = undefined
    await this.#hearers.leave()
    this.#log.warn('LISTEN is heard again: other replicas are heard from the database')
    this.#listeners.tellGap()
  }

  async #goRound(): Promise<void> {
    await this.#options.migrate()
    const way = (await this.#isHeardByRedis()) ? 'redis' : 'polling'
    if (this.#closed) return
    const isNew = way !== this.#way
    await this.#hearers.enter(way)
    if (!isNew) return
    if (way === 'polling') await this.#poll()
    else {
      this.#polling?.close()
      this.#polling = undefined
    }
    this.#way = way
    this.#log.warn({ listening: way }, sayings[way])
    await this.#ask('select pg_notify($1, $2)', [hearersChannel, way])
    this.#listeners.tellGap()
  }

  async #poll(): Promise<void> {
    this.#polling?.close()
    const polling = new Polling(
      this.#ask,
      this.#log,
      (message) => this.#arrived(message, 'polling'),
      () => this.#listeners.tellGap(),
    )
    this.#polling = polling
    await polling.begin()
  }

  async #isHeardByRedis(): Promise<boolean> {
    const redis = await this.#openRedis()
    if (redis === undefined) return false
    try {
      await redis.subscribe([this.#own, ...this.#listeners.channels])
      return await this.#comesBack((word) => redis.tell([{ channel: this.#own, payload: word }]))
    } catch (err) {
      this.#log.debug({ err }, 'Redis cannot carry messages between replicas')
      return false
    }
  }

  async #openRedis(): Promise<RedisBus | undefined> {
    const { redisUrl: url } = this.#options
    if (this.#redis !== undefined || url === undefined) return this.#redis
    try {
      const bus = await RedisBus.open({
        url,
        space: await this.#hearers.space(),
        log: this.#log,
        onMessage: (message) => this.#arrived(message, 'redis'),
        onGap: () => this.#way === 'redis' && this.#listeners.tellGap(),
        onLost: () => {
          if (this.#way === 'redis') void this.check()
        },
      })
      if (this.#closed) bus.close()
      else this.#redis = bus
    } catch (err) {
      this.#log.debug({ err }, 'Redis cannot carry messages between replicas')
    }
    return this.#redis
  }
}

const remedy =
  'The three ways to hear other replicas: DATABASE_LISTEN_URL, an address of PostgreSQL without a pooler; ' +
  'REDIS_URL; or looking into a table four times a second.'
const sayings = {
  redis: `LISTEN is not heard, as behind a transaction pooler: Redis carries the messages. ${remedy}`,
  polling: `LISTEN is not heard, as behind a transaction pooler: messages come by looking into a table. ${remedy}`,
}
