import type { Redis } from 'ioredis'
import type { Log } from '../../../plugin.ts'
import type { ChannelMessage } from './channels.ts'

/** What a bus on Redis calls. */
export interface RedisBusOptions {
  readonly url: string
  /** The part of every name that other oracles on the same Redis do not have. */
  readonly space: string
  readonly log: Log
  onMessage(message: ChannelMessage): void
  /** The connection was lost and is there again. */
  onGap(): void
  /** The connection was lost. */
  onLost(): void
}

/** Channels on Redis: the payloads that would go by the database. */
export class RedisBus {
  readonly #options: RedisBusOptions
  readonly #talker: Redis
  readonly #hearer: Redis

  private constructor(options: RedisBusOptions, talker: Redis, hearer: Redis) {
    this.#options = options
    this.#talker = talker
    this.#hearer = hearer
    hearer.on('message', (name: string, payload: string) => {
      options.onMessage({ channel: name.slice(options.space.length), payload })
    })
    hearer.on('close', () => options.onLost())
    hearer.on('ready', () => options.onGap())
  }

  /** Connects twice: a connection that subscribes does nothing else. Rejects when Redis does not answer. */
  static async open(options: RedisBusOptions): Promise<RedisBus> {
    const { Redis } = await import('ioredis') // most servers never need it
    const connection = () => {
      const redis = new Redis(options.url, {
        lazyConnect: true,
        connectTimeout: 2_000,
        commandTimeout: 2_000,
        maxRetriesPerRequest: 1,
        enableOfflineQueue: false,
        autoResubscribe: true,
      })
      redis.on('error', (err: Error) => options.log.debug({ err }, 'Redis'))
      return redis
    }
    const [talker, hearer] = [connection(), connection()]
    try {
      await Promise.all([talker.connect(), hearer.connect()])
    } catch (error) {
      talker.disconnect()
      hearer.disconnect()
      throw error
    }
    return new RedisBus(options, talker, hearer)
  }

  async subscribe(channels: readonly string[]): Promise<void> {
    const names = channels.map((channel) => this.#options.space + channel)
    if (names.length > 0) await this.#hearer.subscribe(...names)
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#hearer.unsubscribe(this.#options.space + channel)
  }

  /** Tells everybody who subscribed. A message that Redis does not take is lost: ids are looked up later. */
  tell(messages: readonly ChannelMessage[]): void {
    for (const { channel, payload } of messages)
      this.#talker
        .publish(this.#options.space + channel, payload)
        .catch((err: unknown) => this.#options.log.debug({ err }, 'Redis was not told'))
  }

  close(): void {
    this.#hearer.removeAllListeners('close')
    this.#talker.disconnect()
    this.#hearer.disconnect()
  }
}
