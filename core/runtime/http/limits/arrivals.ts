import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { RuntimeError } from '../../../errors.ts'
import { hasBody } from '../read/body.ts'

/** What a body is held to while it arrives. */
export interface ArrivalLimits {
  /** How long a body of the usual size may take, and the span over which the pace of a larger one is taken. */
  readonly withinMs: number
  /** How many bytes a second a larger body has to bring over that span. */
  readonly bytesPerS: number
  /** How often the bodies under way are looked at. */
  readonly checkMs: number
}

const larger = new WeakSet<IncomingMessage>()

/** Says that the body of a request may be larger than usual: from now on it is held to a pace, and to no time. */
export function mayBeLarger(req: IncomingMessage): void {
  larger.add(req)
}

interface Seen {
  readonly at: number
  readonly bytes: number
}

interface Arrival {
  readonly req: IncomingMessage
  readonly since: number
  /** What the connection had brought at the last looks; at most one that is older than the span. */
  seen: Seen[]
}

/**
 * Ends requests whose bodies come too slowly. Node's own limit knows one time for every request, which a large file over
 * a slow line cannot keep; so the body of a route that takes more than usual is held to a pace.
 */
export class Arrivals {
  readonly #limits: ArrivalLimits
  readonly #refuse: (socket: Socket, error: RuntimeError) => void
  /** The last body of each connection. Complete ones go at the next look. */
  readonly #bodies = new Map<Socket, Arrival>()
  #timer: NodeJS.Timeout | undefined

  /** `refuse` answers on the connection of a body that is late, and closes it. */
  constructor(limits: ArrivalLimits, refuse: (socket: Socket, error: RuntimeError) => void) {
    this.#limits = limits
    this.#refuse = refuse
  }

  /** Notes a request whose body may still be on its way. */
  enter(req: IncomingMessage): void {
    if (!hasBody(req)) return
    this.#bodies.set(req.socket, { req, since: performance.now(), seen: [] })
    this.#timer ??= setInterval(() => this.#look(), this.#limits.checkMs).unref()
  }

  /** Refuses every body that is still on its way, and returns the connections of those. */
  refuseAll(error: RuntimeError): Set<Socket> {
    const refused = new Set<Socket>()
    for (const [socket, { req }] of this.#bodies) {
      if (req.complete || socket.destroyed) continue
      refused.add(socket)
      this.#refuse(socket, error)
    }
    this.#bodies.clear()
    return refused
  }

  #look(): void {
    const now = performance.now()
    for (const [socket, arrival] of this.#bodies) {
      const isOver = arrival.req.complete || socket.destroyed
      const late = isOver ? undefined : this.#lateness(socket, arrival, now)
      if (isOver || late) this.#bodies.delete(socket)
      if (late) this.#refuse(socket, late)
    }
    if (this.#bodies.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Why a body is refused; undefined while it may go on. */
  #lateness(socket: Socket, arrival: Arrival, now: number): RuntimeError | undefined {
    const { withinMs, bytesPerS } = this.#limits
    const { req, since } = arrival
    if (!larger.has(req)) return now - since < withinMs ? undefined : tooLate()
    const latest = { at: now, bytes: socket.bytesRead }
    // Bytes wait to be read: the sender is held up by this server, and is not charged for that.
    if (req.readableLength > 0) {
      arrival.seen = [latest]
      return undefined
    }
    const { seen } = arrival
    seen.push(latest)
    while (seen[1] && seen[1].at <= now - withinMs) seen.shift()
    const [first = latest] = seen
    const tookMs = now - first.at
    if (tookMs < withinMs || (latest.bytes - first.bytes) * 1000 >= bytesPerS * tookMs)
      return undefined
    return tooSlow(bytesPerS, withinMs)
  }
}

const tooLate = () => new RuntimeError('REQUEST_TIMEOUT', 'The request did not arrive in time.')

const tooSlow = (bytesPerS: number, withinMs: number) =>
  new RuntimeError(
    'REQUEST_TIMEOUT',
    `Over the last ${withinMs / 1000} seconds the body came with fewer than ${bytesPerS} bytes a second.`,
    { hint: 'Send it again over a faster line, or in smaller parts.' },
  )
