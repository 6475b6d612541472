import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import type { Log } from '../../plugin.ts'
import { BusLine, type BusState } from './channels/bus-line.ts'
import {
  type ChannelMessage,
  type Channels,
  channelInDatabase,
  checkedChannel,
  fromDatabase,
  type Listener,
  type ListeningWay,
  Listeners,
  type SelfTest,
  telling,
} from './channels/channels.ts'
import { Echo } from './channels/echo.ts'
import { type Ask, ChannelHearers, sayings } from './channels/hearers.ts'
import { Outbox, Polling } from './channels/polling.ts'
import { translated } from './database-errors.ts'
import { ListeningLine } from './listening-line.ts'

const usualSelfTest: SelfTest = { everyMs: 60_000, patienceMs: 2_000 }
/** The channel on which a process says that it cannot listen to the others, or that it can again. */
const hearersChannel = 'kernel_hearers'
/** What channels begin with on which those who hear the bus tell the others. */
const fromBus = 'bus_'

/** What the channels of a PostgreSQL are made of. */
export interface PostgresChannelsOptions {
  readonly pool: pg.Pool
  /** The settings of the connection that listens. */
  readonly settings: pg.ClientConfig
  /** Whether these lead to another address than the pool's, which may be wrong while the database is well. */
  readonly isOtherAddress?: boolean
  readonly log: Log
  readonly redisUrl?: string | undefined
  readonly busUrl?: string | undefined
  readonly selfTest?: SelfTest | undefined
  readonly heartbeatMs?: number
  /** Makes the tables of those who cannot listen. */
  migrate(): Promise<unknown>
}

/**
 * PostgreSQL's LISTEN and NOTIFY. A pooler may take LISTEN and never bring a message. Therefore the process notifies itself,
 * and where it does not hear that, it hears the others by Redis or by looking into a table, where those who hear tell it too.
 * Messages may be lost on the way from one to the other: then listeners are told of a gap.
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
  readonly #echo: Echo
  #way: ListeningWay = 'direct'
  #polling: Polling | undefined
  readonly #redis: BusLine | undefined
  readonly #bus: BusLine | undefined
  #begun: Promise<void> | undefined
  #isTested = false
  #hasSaidAway = false
  #checking: Promise<void> | undefined
  #again = false // somebody said something while this process looked, so it looks once more
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: PostgresChannelsOptions) {
    const { pool, settings, log, selfTest = usualSelfTest, heartbeatMs } = options
    this.#options = options
    this.#log = log
    this.#selfTest = selfTest
    this.#echo = new Echo(selfTest.patienceMs)
    this.#listeners = new Listeners(log)
    this.#ask = async (sql, values = []) => (await pool.query(sql, [...values])).rows
    this.#hearers = new ChannelHearers(this.#ask, log, this.#own, selfTest.everyMs)
    this.#outbox = new Outbox(this.#ask, log)
    this.#bus = this.#busAt(options.busUrl, 'bus')
    this.#redis = this.#busAt(options.redisUrl, 'redis')
    this.#line = new ListeningLine({
      settings,
      log,
      heartbeatMs,
      onMessage: (message) => this.#arrived(message, 'direct'),
      onBack: () => this.#listeners.tellGap(),
    })
  }

  /** How this process hears the others. */
  get way(): ListeningWay {
    return this.#way
  }

  /** How long a message of this process to itself took last; undefined where none came back. */
  get heardInMs(): number | undefined {
    return this.#echo.tookMs
  }

  /** How the bus of BUS_URL is. */
  get bus(): BusState | undefined {
    return this.#bus?.state
  }

  /** Whether there are processes that do not hear the bus. */
  get #isSplit(): boolean {
    return [...this.#hearers.others].some((way) => way !== 'bus')
  }

  /**
   * A statement that notifies, as it is to be said: where all processes hear the bus, nobody is notified. A process that
   * hears the bus notifies the others on channels of their own, so that no process hears one message twice.
   */
  adapted(sql: string): string {
    if (this.#way !== 'bus') return sql
    return sql.replaceAll('pg_notify(', this.#isSplit ? `pg_notify('${fromBus}' || ` : 'strpos(')
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
      if (this.#way === 'bus') await this.#bus?.subscribe(channel)
      for (const name of this.#inDatabase([channel])) await this.#line.listen(name)
      if (this.#way === 'redis') await this.#redis?.subscribe(channel)
    } catch (error) {
      await stop()
      throw translated(error)
    }
    return stop
  }

  async notify(channel: string, payload: string): Promise<void> {
    const { to, payload: body } = telling(channel, payload)
    try {
      if (this.#way !== 'bus' || this.#isSplit)
        await this.#ask(this.adapted('select pg_notify($1, $2)'), [to, body])
    } catch (error) {
      throw translated(error)
    }
    this.told([{ channel, payload }])
  }

  /** Passes on what a statement has told by NOTIFY, to those who do not hear that. */
  told(messages: readonly ChannelMessage[]): void {
    if (this.#closed || messages.length === 0) return
    const { others } = this.#hearers
    if (this.#way === 'bus') this.#bus?.tell(messages)
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
    this.#bus?.close()
  }

  /** The channels of the database by which this process hears others now. */
  #inDatabase(channels: readonly string[]): string[] {
    if (this.#way !== 'direct' && !(this.#way === 'bus' && this.#isSplit)) return []
    const names = [...new Set(channels.map(channelInDatabase))]
    const isAlone = this.#bus === undefined && !this.#hearers.others.has('bus')
    return isAlone || this.#way === 'bus' ? names : names.flatMap((name) => [name, fromBus + name])
  }

  async #remove(channel: string, listener: Listener): Promise<void> {
    if (!this.#listeners.remove(channel, listener)) return
    if (this.#listeners.channels.length > 0) {
      await this.#bus?.unsubscribe(channel)
      await this.#redis?.unsubscribe(channel)
      if (!channel.includes('.')) await this.#keepWhatIsHeard()
      return
    }
    clearInterval(this.#timer)
    this.#begun = undefined
    this.#isTested = false
    await this.#line.rest()
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
      if (this.#checking) this.#again = true
      await this.#checkOnce()
      while (this.#again && !this.#closed) {
        this.#again = false
        await this.#checkOnce()
      }
    } catch (err) {
      if (!this.#closed) this.#log.debug({ err }, 'Listening could not be tested; trying again')
    }
  }

  #checkOnce(): Promise<void> {
    this.#checking ??= this.#check().finally(() => (this.#checking = undefined))
    return this.#checking
  }

  async #check(): Promise<void> {
    if (await this.#isHeardBy(this.#bus)) await this.#goByBus()
    else await this.#checkLine()
    if (this.#closed || this.#listeners.channels.length === 0) return
    await this.#hearers.look()
    if (this.#hearers.others.has('redis')) await this.#redis?.open()
    // Those who do not know of the bus have to say so, or those who do would tell them nothing.
    if (this.#way === 'direct' && this.#hearers.others.has('bus')) await this.#enter('direct')
    for (const name of this.#inDatabase(this.#listeners.channels)) await this.#line.listen(name)
    await this.#keepWhatIsHeard()
  }

  async #checkLine(): Promise<void> {
    let isHeard = await this.#isHeardByLine()
    if (!isHeard && this.#isTested) {
      await this.#line.hangUp()
      isHeard = await this.#isHeardByLine()
    }
    this.#isTested = true
    if (this.#closed || this.#listeners.channels.length === 0) return
    if (isHeard) await this.#goDirect()
    else await this.#goRound()
  }

  #keepWhatIsHeard(): Promise<void> {
    const names = this.#inDatabase(this.#listeners.channels)
    return this.#line.keep(new Set([...names, this.#own, hearersChannel]))
  }

  #busAt(url: string | undefined, way: ListeningWay): BusLine | undefined {
    if (url === undefined) return undefined
    return new BusLine({
      url,
      log: this.#log,
      space: async () => {
        await this.#options.migrate()
        return this.#hearers.space()
      },
      onMessage: (message) => this.#arrived(message, way),
      onChange: () => {
        // The Redis of REDIS_URL matters where nothing better is heard.
        if (way === 'bus' || this.#way === 'redis' || this.#way === 'polling') void this.check()
      },
    })
  }

  async #isHeardBy(bus: BusLine | undefined): Promise<boolean> {
    if (bus === undefined || this.#closed) return false
    return bus.works([this.#own, ...this.#listeners.channels], (send) =>
      this.#echo.comesBack((payload) => send({ channel: this.#own, payload })),
    )
  }

  async #goByBus(): Promise<void> {
    const isNew = this.#way !== 'bus'
    this.#way = 'bus'
    this.#hasSaidAway = false
    await this.#hearers.enter('bus')
    try {
      // From here this process learns of those who lost the bus, or never had it.
      await this.#line.listen(hearersChannel)
    } catch (err) {
      this.#log.debug({ err }, 'The connection that listens to the database is away')
    }
    if (!isNew) return
    this.#polling?.close()
    this.#polling = undefined
    this.#log.info({ listening: 'bus' }, 'Replicas are heard by the bus')
    await this.#ask('select pg_notify($1, $2)', [hearersChannel, 'bus'])
    this.#listeners.tellGap()
  }

  /** Enters this process among those that the others have to tell in another way. */
  async #enter(way: ListeningWay): Promise<void> {
    await this.#options.migrate()
    await this.#hearers.enter(way)
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
    return this.#echo.comesBack((word) =>
      this.#ask('select pg_notify($1, $2)', [this.#own, word]).catch((error: unknown) => {
        throw translated(error)
      }),
    )
  }

  #arrived(message: ChannelMessage, way: ListeningWay): void {
    const { channel, payload } = message
    if (channel === this.#own) {
      this.#echo.heard(payload)
    } else if (channel === hearersChannel) void this.check()
    else if (way === 'direct') {
      const isForUs = this.#way === 'bus' ? !channel.startsWith(fromBus) : this.#way === 'direct'
      if (isForUs)
        this.#listeners.deliver(fromDatabase({ channel: channel.replace(fromBus, ''), payload }))
    }
    // A message may come by two ways; one of them counts.
    else if (way === this.#way) this.#listeners.deliver(message)
  }

  async #goDirect(): Promise<void> {
    const before = this.#way
    if (this.#bus !== undefined) await this.#enter('direct')
    if (this.#bus !== undefined && !this.#hasSaidAway) this.#log.warn(sayings.bus)
    this.#hasSaidAway = true
    if (before === 'direct') return
    this.#way = 'direct'
    for (const name of this.#inDatabase(this.#listeners.channels)) await this.#line.listen(name)
    this.#polling?.close()
    this.#polling = undefined
    if (this.#bus === undefined) await this.#hearers.leave()
    if (before !== 'bus') this.#log.warn({ listening: 'direct' }, sayings.direct)
    if (before === 'bus') await this.#ask('select pg_notify($1, $2)', [hearersChannel, 'direct'])
    this.#listeners.tellGap()
  }

  async #goRound(): Promise<void> {
    const way = (await this.#isHeardBy(this.#redis)) ? 'redis' : 'polling'
    if (this.#closed) return
    const isNew = way !== this.#way
    await this.#enter(way)
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
}
