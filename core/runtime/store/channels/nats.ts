import { readFile } from 'node:fs/promises'
import type { NatsConnection, Subscription } from '@nats-io/transport-node'
import { type Bus, type BusOptions, busPatienceMs } from './bus.ts'
import type { ChannelMessage } from './channels.ts'

/** How often the client looks whether its server still answers, and how long it waits before it connects again. */
const pingMs = 10_000
const againMs = 500

/** Channels as subjects of NATS. */
export class NatsBus implements Bus {
  readonly #connection: NatsConnection
  readonly #options: BusOptions
  readonly #prefix: string
  readonly #subscriptions = new Map<string, Subscription>()

  private constructor(connection: NatsConnection, options: BusOptions) {
    this.#connection = connection
    this.#options = options
    // A colon means nothing to NATS; a point divides a subject into words, on which permissions can be given.
    this.#prefix = options.space.replaceAll(':', '.')
    void this.#watch()
  }

  /** Connects, and from then on connects again by itself. Rejects when no server answers. */
  static async open(options: BusOptions): Promise<NatsBus> {
    const { connect, credsAuthenticator } = await import('@nats-io/transport-node')
    const { servers, user, pass, isTls, credentials } = readNatsUrl(options.url)
    const authenticator =
      credentials === undefined ? undefined : credsAuthenticator(await readFile(credentials))
    const connection = await connect({
      servers,
      name: 'oracle-runtime',
      timeout: busPatienceMs,
      reconnectTimeWait: againMs,
      maxReconnectAttempts: -1,
      pingInterval: pingMs,
      ...(user !== undefined && { user, pass }),
      ...(isTls && { tls: {} }),
      ...(authenticator && { authenticator }),
    })
    return new NatsBus(connection, options)
  }

  async subscribe(channels: readonly string[]): Promise<void> {
    const fresh = channels.filter((channel) => !this.#subscriptions.has(channel))
    for (const channel of fresh) {
      const subscription = this.#connection.subscribe(this.#prefix + channel, {
        callback: (error, message) => {
          if (error === null) this.#options.onMessage({ channel, payload: message.string() })
        },
      })
      this.#subscriptions.set(channel, subscription)
    }
    if (fresh.length > 0) await this.#taken()
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#subscriptions.get(channel)?.unsubscribe()
    this.#subscriptions.delete(channel)
  }

  tell(messages: readonly ChannelMessage[]): void {
    try {
      for (const { channel, payload } of messages)
        this.#connection.publish(this.#prefix + channel, payload)
    } catch (err) {
      this.#options.log.debug({ err }, 'NATS was not told')
    }
  }

  close(): void {
    this.#subscriptions.clear()
    void this.#connection.close().catch(() => undefined)
  }

  /** Resolves when the server has taken what was sent so far. */
  async #taken(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const fail = () => reject(new Error('NATS does not answer.'))
      timer = setTimeout(fail, busPatienceMs).unref()
    })
    try {
      await Promise.race([this.#connection.flush(), late])
    } finally {
      clearTimeout(timer)
    }
  }

  async #watch(): Promise<void> {
    for await (const { type } of this.#connection.status())
      if (type === 'disconnect' || type === 'close') this.#options.onLost()
      else if (type === 'reconnect') this.#options.onGap()
  }
}

/** What a client of NATS needs to know, from one address: several servers stand with commas between, as NATS writes them. */
function readNatsUrl(url: string) {
  const [, scheme, userinfo, hosts = '', query = ''] =
    /^(nats|tls):\/\/(?:([^@/]*)@)?([^/?]+)\/?(?:\?(.*))?$/.exec(url) ?? []
  const [user, pass] = (userinfo ?? '').split(':').map(decodeURIComponent)
  return {
    servers: hosts.split(','),
    isTls: scheme === 'tls',
    credentials: new URLSearchParams(query).get('creds') ?? undefined,
    ...(userinfo !== undefined && { user, pass }),
  }
}
