import type { Redis } from 'ioredis'
import { type Bus, type BusOptions, busPatienceMs } from './bus.ts'
import type { ChannelMessage } from './channels.ts'

/** Channels on Redis: the payloads that would go by the database. */
export class RedisBus implements Bus {
  readonly #options: BusOptions
  readonly #talker: Redis
  readonly #hearer: Redis

  private constructor(options: BusOptions, talker: Redis, hearer: Redis) {
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
  static async open(options: BusOptions): Promise<RedisBus> {
    const { Redis } = await import('ioredis') // most servers never need it
    const connection = () => {
      const redis = new Redis(options.url, {
        lazyConnect: true,
        connectTimeout: busPatienceMs,
        commandTimeout: busPatienceMs,
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
