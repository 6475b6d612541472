import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import type { EventReader } from '../turns/events/reader.ts'
import type { SessionCut } from '../turns/events/watchers.ts'
import type { Runs } from '../turns/carry/runs.ts'
import type { Peer } from './peer.ts'
import { RoomEvent } from './room-event.ts'

/** What the rooms ask of the runs. */
export type RoomRuns = Pick<Runs, 'watch' | 'attend' | 'subscribe' | 'openRuns'>

/** How long to wait with a run whose events cannot be read just now. */
const pauseMs = 1_000
const mostTold = 8

/** The sockets of this process, by session. A session has a room as long as it has a socket here. */
export class SessionRooms {
  readonly #runs: RoomRuns
  readonly #log: Log
  readonly #rooms = new Map<string, Room>()

  constructor(runs: RoomRuns, log: Log) {
    this.#runs = runs
    this.#log = log
  }

  /** Adds the socket to the session: from here on it hears what happens there. */
  join(peer: Peer, sessionId: string): Room {
    let room = this.#rooms.get(sessionId)
    if (!room) this.#rooms.set(sessionId, (room = new Room(sessionId, this.#runs, this.#log)))
    room.members.add(peer)
    return room
  }

  leave(peer: Peer, sessionId: string): void {
    const room = this.#rooms.get(sessionId)
    room?.members.delete(peer)
    if (room?.members.size !== 0) return
    this.#rooms.delete(sessionId)
    room.close()
  }
}

/** One session: reads each of its runs once, for all its sockets. */
class Room {
  readonly members = new Set<Peer>()
  readonly #sessionId: string
  readonly #runs: RoomRuns
  readonly #log: Log
  readonly #stop: readonly (() => void)[]
  /** The runs that are read, each with its reader once there is one. */
  #following: Map<string, EventReader | undefined> | undefined
  /** Runs whose events went out to their end: the news that a run began may come later than its end. */
  readonly #told: string[] = []
  #closed = false

  constructor(sessionId: string, runs: RoomRuns, log: Log) {
    this.#sessionId = sessionId
    this.#runs = runs
    this.#log = log
    const onDeleted = () => {
      for (const peer of this.members) peer.close('foreign')
    }
    this.#stop = [
      runs.watch(sessionId, {
        onRun: (runId) => void this.#follow(runId, 0),
        onDeleted,
        onCut: (cut) => this.#tellCut(cut),
      }),
      runs.attend(sessionId),
    ]
  }

  /**
   * Tells a new member what its session waits for, and one that comes `late` which runs have begun: their events may be a while.
   * Resolves to the ids of the runs that the member hears from here on.
   */
  async welcome(peer: Peer, late: boolean): Promise<readonly string[]> {
    const open = await this.#runs.openRuns(this.#sessionId)
    const ids = open.map(({ runId }) => runId)
    for (const { runId, requestId, lastSeq, calls } of open) {
      if (this.#closed) return ids
      void this.#follow(runId, lastSeq, requestId)
      const facts = { sessionId: this.#sessionId, runId, requestId }
      if (late) peer.tell(new RoomEvent(facts, 'run', '{}', 1))
      for (const { event, data } of calls) peer.tell(new RoomEvent(facts, event, data))
    }
    return ids
  }

  close(): void {
    this.#closed = true
    for (const stop of this.#stop) stop()
    for (const reader of this.#following?.values() ?? []) void reader?.return()
  }

  /** Passes on a run's events after a number, to its end. */
  async #follow(runId: string, after: number, requestId = ''): Promise<void> {
    const following = (this.#following ??= new Map<string, EventReader | undefined>())
    if (this.#closed || following.has(runId) || this.#told.includes(runId)) return
    following.set(runId, undefined)
    const place = { seq: after, requestId }
    while (!this.#closed)
      try {
        await this.#readOn(runId, place, following)
        break
      } catch (error) {
        if (error instanceof RuntimeError && error.status < 500) break // the run is gone
        this.#log.warn({ err: error, runId }, 'The sockets of a session wait for its events')
        await sleep(pauseMs, undefined, { ref: false })
      }
    following.delete(runId)
    if (this.#told.push(runId) > mostTold) this.#told.shift()
    for (const peer of this.members) peer.forgetCalls()
  }

  async #readOn(
    runId: string,
    place: { seq: number; requestId: string },
    following: Map<string, EventReader | undefined>,
  ): Promise<void> {
    const reader = await this.#runs.subscribe(runId, place.seq)
    following.set(runId, reader)
    if (this.#closed) return void (await reader.return())
    for await (const { id, event, data } of reader) {
      if (id === undefined) return // the server closes
      place.seq = id
      if (event === 'run') place.requestId ||= (JSON.parse(data) as { requestId: string }).requestId
      const facts = { sessionId: this.#sessionId, runId, requestId: place.requestId }
      this.#pass(new RoomEvent(facts, event, data, id))
    }
  }

  /** Tells of a reply that was cut. Clients that do not know the event read their history again. */
  #tellCut({ requestId, ...cut }: SessionCut): void {
    const facts = { sessionId: this.#sessionId, runId: cut.runId, requestId }
    this.#pass(new RoomEvent(facts, 'cut', JSON.stringify(cut)))
    this.#pass(new RoomEvent(facts, 'message_cache_invalidation', '{}'))
  }

  #pass(event: RoomEvent): void {
    for (const peer of this.members) peer.tell(event)
  }
}
