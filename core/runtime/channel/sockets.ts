import type { Log } from '../../plugin.ts'
import type { Notices } from '../notices/notices.ts'
import type { Framing } from './framing.ts'
import { Peer, type PeerOptions } from './peer.ts'
import { plain } from './plain.ts'
import { RoomEvent } from './room-event.ts'
import { type RoomRuns, SessionRooms } from './rooms.ts'
import { sessionOf, socketIo } from './socket-io.ts'
import { SocketServer } from './socket-server.ts'
import { tellUser } from './user-events.ts'

const framings: Readonly<Record<Framing['name'], Framing>> = { plain, 'socket.io': socketIo }

/** What only sockets need: a server that has none does not load it. */
export class Sockets {
  readonly server = new SocketServer()
  readonly rooms: SessionRooms
  readonly #log: Log

  constructor(runs: RoomRuns, log: Log) {
    this.rooms = new SessionRooms(runs, log)
    this.#log = log
  }

  /** A new socket; in the framing of Socket.IO its address may name the session. */
  peer(
    name: Framing['name'],
    query: string,
    options: Omit<PeerOptions, 'framing' | 'sessionId'>,
  ): Peer {
    const sessionId = name === 'socket.io' ? sessionOf(query) : undefined
    return new Peer({ ...options, framing: framings[name], sessionId })
  }

  /** Passes the events of its user on to a socket. */
  tellUser(peer: Peer, reader: ReturnType<Notices['read']>): { end(): void } {
    return tellUser(peer, reader, this.#log)
  }

  /** Tells a client that the history of its session has gone on while it was away. */
  tellToRead(peer: Peer, sessionId: string): void {
    const facts = { sessionId, runId: '', requestId: '' }
    peer.tell(new RoomEvent(facts, 'message_cache_invalidation', '{}'))
  }
}
