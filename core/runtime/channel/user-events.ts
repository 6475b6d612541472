import type { Log } from '../../plugin.ts'
import type { UserEvent, UserReader } from '../notices/reader.ts'
import type { Peer } from './peer.ts'

/**
 * Passes the events of a user on to a socket, each when the network has taken the one before. A socket whose events break
 * off is closed, and its client goes on with another.
 */
export function tellUser(peer: Peer, reader: UserReader, log: Log): { end(): void } {
  void pass(peer, reader, log)
  return { end: () => reader.end() }
}

async function pass(peer: Peer, reader: UserReader, log: Log): Promise<void> {
  try {
    for await (const event of reader) {
      await peer.sent(frameOf(event))
      if (!peer.isOpen) return
    }
  } catch (err) {
    log.warn({ err }, 'The events of a user could not be read')
  }
  if (peer.isOpen) peer.close('tryLater')
}

const frameOf = ({ event, data }: UserEvent): string =>
  JSON.stringify({ eventName: event, payload: data })
