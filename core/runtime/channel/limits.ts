/** The largest frame that a client may send. */
export const maxFrameBytes = 64 * 1024

/** What the channel allows, and how long it waits. */
export interface ChannelLimits {
  /** For the first credential. */
  readonly authMs: number
  /** Between two questions whether a client is still there, and for its answer. */
  readonly pingMs: number
  readonly pongMs: number
  /** How often the channel checks these times. */
  readonly sweepMs: number
  /** What may wait for a client that does not read. */
  readonly bufferBytes: number
  /** Frames that a client may send at once, and how many more each second. */
  readonly burst: number
  readonly perSecond: number
  /** Sockets of one address. */
  readonly perAddress: number
  /** Sockets of one DID. */
  readonly perDid: number
  /** Frames of one client that may wait to be worked off. */
  readonly backlog: number
}

/** The limits unless a server sets its own. */
export const channelLimits: ChannelLimits = {
  authMs: 5_000,
  pingMs: 25_000,
  pongMs: 20_000,
  sweepMs: 500,
  bufferBytes: 1024 * 1024,
  burst: 200,
  perSecond: 50,
  perAddress: 500,
  perDid: 20,
  backlog: 128,
}
