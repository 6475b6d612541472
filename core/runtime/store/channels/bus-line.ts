import type { Log } from '../../../plugin.ts'
import type { Bus, BusOptions } from './bus.ts'
import type { ChannelMessage } from './channels.ts'

/** How the bus is: what kind it is, and since when it cannot be used. */
export interface BusState {
  readonly kind: 'nats' | 'redis'
  readonly isUp: boolean
  /** For how many seconds this process has been without it; 0 while it works. */
  readonly awaySeconds: number
}

/** How long a whole attempt to open the bus may take: a server may accept the connection and be silent. */
const openingMs = 3_000
/** How long after a failure a bus that never answered is tried again. */
const againMs = 5_000

/** What a line to a bus is made of. */
export interface BusLineOptions {
  readonly url: string
  readonly log: Log
  /** The part of every name that other oracles on the same bus do not have. */
  space(): Promise<string>
  onMessage(message: ChannelMessage): void
  /** The bus can be used again, or not any more. */
  onChange(): void
}

/** The bus that BUS_URL names: opened when it answers, and known to be away when it does not. */
export class BusLine {
  readonly #options: BusLineOptions
  #bus: Bus | undefined
  #opening: Promise<Bus | undefined> | undefined
  #isConnected = false
  #isUp = false
  #awaySince = performance.now()
  #again: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: BusLineOptions) {
    this.#options = options
  }

  get state(): BusState {
    const awayMs = this.#isUp ? 0 : performance.now() - this.#awaySince
    return {
      kind: /^rediss?:/.test(this.#options.url) ? 'redis' : 'nats',
      isUp: this.#isUp,
      awaySeconds: Math.round(awayMs / 1000),
    }
  }

  /** Whether messages come by the bus: these channels are subscribed to, and `comesBack` heard itself. */
  async works(
    channels: readonly string[],
    comesBack: (send: (message: ChannelMessage) => void) => Promise<boolean>,
  ): Promise<boolean> {
    const works = await this.#tried(channels, comesBack)
    if (this.#isUp && !works) this.#awaySince = performance.now()
    this.#isUp = works
    if (!works && !this.#isClosed && this.#again === undefined)
      this.#again = setTimeout(() => {
        this.#again = undefined
        this.#options.onChange()
      }, againMs).unref()
    return works
  }

  /** Connects, where somebody answers; undefined where not. */
  open(): Promise<Bus | undefined> {
    return (this.#opening ??= this.#open().finally(() => (this.#opening = undefined)))
  }

  /** Subscribes, where the bus takes it; what it does not take now is subscribed to when it works again. */
  async subscribe(channel: string): Promise<void> {
    try {
      await this.#bus?.subscribe([channel])
    } catch (err) {
      this.#options.log.debug({ err }, 'The bus takes no subscription')
    }
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#bus?.unsubscribe(channel).catch(() => {})
  }

  tell(messages: readonly ChannelMessage[]): void {
    this.#bus?.tell(messages)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#again)
    this.#bus?.close()
  }

  async #tried(
    channels: readonly string[],
    comesBack: (send: (message: ChannelMessage) => void) => Promise<boolean>,
  ): Promise<boolean> {
    const bus = await this.open()
    if (bus === undefined || !this.#isConnected) return false
    try {
      await bus.subscribe(channels)
      return await comesBack((message) => bus.tell([message]))
    } catch (err) {
      this.#options.log.debug({ err }, 'The bus of BUS_URL cannot be used')
      return false
    }
  }

  async #open(): Promise<Bus | undefined> {
    if (this.#bus !== undefined || this.#isClosed) return this.#bus
    const { url, log, space, onMessage, onChange } = this.#options
    let timer: NodeJS.Timeout | undefined
    try {
      const opened = openBus({
        url,
        space: await space(),
        log,
        onMessage,
        onGap: () => {
          this.#isConnected = true
          onChange()
        },
        onLost: () => {
          this.#isConnected = false
          onChange()
        },
      })
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('The bus does not answer.')), openingMs).unref()
      })
      // What comes after all is not used.
      opened.then(
        (bus) => this.#bus !== bus && (this.#isClosed || timer === undefined) && bus.close(),
        () => undefined,
      )
      const bus = await Promise.race([opened, late])
      if (this.#isClosed) bus.close()
      else this.#bus = bus
      this.#isConnected = true
    } catch (err) {
      log.debug({ err }, 'The bus of BUS_URL does not answer')
    } finally {
      clearTimeout(timer)
      timer = undefined
    }
    return this.#bus
  }
}

/** Connects to the bus at an address. Rejects when nothing answers there. */
export async function openBus(options: BusOptions): Promise<Bus> {
  if (/^rediss?:/.test(options.url)) {
    const { RedisBus } = await import('./redis.ts')
    return RedisBus.open(options)
  }
  const { NatsBus } = await import('./nats.ts')
  return NatsBus.open(options)
}
