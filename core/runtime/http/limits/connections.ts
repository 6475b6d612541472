import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { z } from 'zod'
import type { Log } from '../../../plugin.ts'
import { clientAddress, clientNetwork } from './client-address.ts'
import { responseOf } from '../answer/response-of.ts'

/** The log says at most this often that connections are refused. */
const tellMs = 60_000
/** A new connection has so long to send something before it may have to make way. */
const graceMs = 250
/** After a look that found no connection to end, the next comes no sooner than this: a look goes over all connections. */
const lookMs = 50

interface Connection {
  readonly address: string
  readonly since: number
  /** Whether the connection speaks something else than HTTP, and so may be quiet for as long as it likes. */
  isUpgraded: boolean
}

/**
 * The connections of a server: no more than `total`. When it is nearly full, connections on which nothing is under way
 * (nothing said yet, half a head, or between two requests) make way for new ones, the oldest of the address with the most:
 * so no client keeps others out by connections that it only holds. The server drops connections beyond the total.
 */
export class Connections {
  readonly #total: number
  /** Room for connections that arrive while others, which made way, are being closed. */
  readonly #margin: number
  readonly #log: Log
  readonly #open = new Map<Socket, Connection>()
  #nextLook = 0
  #refused = 0
  #toldAt = -Infinity

  constructor(server: Server, total: number, log: Log) {
    this.#total = total
    this.#margin = Math.min(Math.ceil(total / 10), 100)
    this.#log = log
    if (total !== Infinity) server.maxConnections = total
    server.on('connection', (socket) => this.#enter(socket))
    server.on('drop', () => {
      this.#makeRoom() // for the next
      this.#tell(1)
    })
  }

  /** Notes that the connection does not speak HTTP from now on. `Http` calls this, for it counts listeners of `upgrade`. */
  upgraded(socket: Socket): void {
    const connection = this.#open.get(socket)
    if (connection) connection.isUpgraded = true
  }

  all(): Iterable<Socket> {
    return this.#open.keys()
  }

  #enter(socket: Socket): void {
    if (this.#open.size >= this.#total - this.#margin) this.#makeRoom()
    this.#open.set(socket, {
      address: addressOf(socket),
      since: performance.now(),
      isUpgraded: false,
    })
    socket.once('close', () => this.#open.delete(socket))
  }

  /**
   * Looks at every connection once, and ends as many as the margin has room for, so that a flood of new ones costs a
   * look only now and then.
   */
  #makeRoom(): void {
    const now = performance.now()
    if (now < this.#nextLook) return
    const waiting = new Map<string, number>()
    // The response is looked up, for a listener that notes the end of each answer would cost every request.
    const waits = (socket: Socket, { isUpgraded, since }: Connection) =>
      !isUpgraded && responseOf(socket) === undefined && now - since > graceMs
    for (const [socket, connection] of this.#open)
      if (waits(socket, connection))
        waiting.set(connection.address, (waiting.get(connection.address) ?? 0) + 1)
    let most = 0
    for (const count of waiting.values()) if (count > most) most = count
    let ended = 0
    for (const [socket, connection] of this.#open) {
      if (ended === this.#margin) break
      if (!waits(socket, connection) || waiting.get(connection.address) !== most) continue
      this.#open.delete(socket)
      socket.destroy()
      ended++
    }
    if (ended > 0) this.#tell(ended)
    else this.#nextLook = now + lookMs
  }

  #tell(count: number): void {
    this.#refused += count
    const now = performance.now()
    if (now - this.#toldAt < tellMs) return
    this.#toldAt = now
    this.#log.warn(
      { refused: this.#refused, total: this.#total },
      'The server has nearly as many connections as it takes (CONNECTIONS_TOTAL): ' +
        'idle ones make way, and beyond the total new ones are dropped',
    )
    this.#refused = 0
  }
}

/** Who holds the connection itself, which is the proxy where there is one. */
const addressOf = (socket: Socket): string => clientNetwork(clientAddress({ socket }))

/** The share of the process's open files that is for connections. The rest is for the database and the like. */
const share = 0.8

/** How many connections there may be: as many as `asked`, but at most four fifths of the files that the process may open. */
export function connectionsAllowed(asked: number, openFiles = openFileLimit()): number {
  return Math.min(asked, Math.floor(openFiles * share))
}

const reported = z.object({
  userLimits: z.object({ open_files: z.object({ soft: z.number() }) }),
})

/** How many files the process may have open at once; endless where the system has no such limit. */
export function openFileLimit(): number {
  if (process.platform === 'win32') return Infinity
  if (process.platform === 'linux') {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const soft = /^Max open files\s+(\S+)/m.exec(limits)?.[1]
    return soft === undefined || soft === 'unlimited' ? Infinity : Number(soft)
  }
  // Elsewhere only a report of the whole process says the limit. Without the network it takes a few milliseconds.
  Object.assign(process.report, { excludeNetwork: true })
  const soft = reported.safeParse(process.report.getReport())
  return soft.success ? soft.data.userLimits.open_files.soft : Infinity
}
