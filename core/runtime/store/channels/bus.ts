import type { Log } from '../../../plugin.ts'
import type { ChannelMessage } from './channels.ts'

/** What carries messages between processes beside the database. */
export interface Bus {
  /** Resolves once messages of these channels arrive. */
  subscribe(channels: readonly string[]): Promise<void>
  unsubscribe(channel: string): Promise<void>
  /** Tells everybody who subscribed. A message that the bus does not take is lost: ids are looked up later. */
  tell(messages: readonly ChannelMessage[]): void
  close(): void
}

/** What a bus is made of, and whom it calls. */
export interface BusOptions {
  readonly url: string
  /** The part of every name that other oracles on the same bus do not have. */
  readonly space: string
  readonly log: Log
  onMessage(message: ChannelMessage): void
  /** The connection was lost and is there again. */
  onGap(): void
  /** The connection was lost. */
  onLost(): void
}

/** How long a bus may take to connect, and to take a subscription. */
export const busPatienceMs = 2_000
