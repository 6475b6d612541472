import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Accounts, type Account, type Device } from './accounts.ts'
import { type Json, Refusal, Room } from './room.ts'
import type { Asked } from './asked.ts'
import { routes } from './routes.ts'

/** What a test has the server do in place of an answer. */
export type Fault =
  | { readonly status: number; readonly body?: unknown; readonly text?: string }
  | 'silent'
  | 'close'
  | 'cut'

/** A request as a test sees it. */
export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly userId: string | undefined
  /** What the client calls itself. */
  readonly agent: string
  readonly body: Json
}

/** What a small messaging server is made of. */
export interface HomeserverOptions {
  readonly name?: string
  readonly port?: number
  /** How many sends an account has at once, and how many more come in a second; without it there is no limit. */
  readonly sends?: { readonly burst: number; readonly perSecond: number }
}

const mostBodyBytes = 20 * 1024 * 1024
/** The longest event that the server takes, as the protocol says. */
const mostEventBytes = 65_536
/** How many requests are remembered. */
const mostSeen = 20_000

/**
 * A small messaging server for tests and for trying: it speaks as much of Matrix as an oracle and its people need, on
 * loopback and in memory alone. It knows no federation and checks no signatures.
 */
export class Homeserver {
  readonly accounts: Accounts
  readonly rooms = new Map<string, Room>()
  readonly aliases = new Map<string, { readonly roomId: string; readonly by: string }>()
  readonly media = new Map<string, { readonly bytes: Buffer; readonly type: string }>()
  readonly changes: { readonly position: number; readonly userId: string }[] = []
  readonly seen: SeenRequest[] = []
  /** What was refused, by path: `/_matrix/client/v3/keys/upload 400 M_UNKNOWN`. */
  readonly refused: string[] = []
  /** Asked before each request: what it returns is done in place of an answer. */
  fault: ((request: SeenRequest) => Fault | undefined) | undefined
  sends: HomeserverOptions['sends']
  readonly #buckets = new Map<string, { left: number; at: number }>()
  readonly #http: Server
  readonly #waiting = new Set<() => void>()
  #position = 1
  #port = 0

  private constructor(options: HomeserverOptions) {
    if (process.env.NODE_ENV === 'production')
      throw new Error('The small messaging server is for tests and for trying: not for production.')
    this.accounts = new Accounts(options.name ?? 'home.test')
    this.sends = options.sends
    this.#http = createServer((request, response) => void this.#serve(request, response))
  }

  /** Listens on loopback. */
  static async open(options: HomeserverOptions = {}): Promise<Homeserver> {
    const server = new Homeserver(options)
    await server.listen(options.port ?? 0)
    return server
  }

  get name(): string {
    return this.accounts.server
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get position(): number {
    return this.#position
  }

  /** Listens again, on the same port, after `stop`. */
  async listen(port: number = this.#port): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#http.once('error', reject)
      this.#http.listen(port, '127.0.0.1', resolve)
    })
    this.#port = (this.#http.address() as AddressInfo).port
  }

  /** Stops answering; what it knows stays. */
  async stop(): Promise<void> {
    this.#wake()
    const closed = new Promise((resolve) => this.#http.close(resolve))
    this.#http.closeAllConnections()
    await closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  register(name: string, password = `${name}-password`): Account {
    return this.accounts.register(name, password)
  }

  room(id: string): Room {
    const room = this.rooms.get(id)
    if (!room) throw new Refusal(404, 'M_NOT_FOUND', 'No such room.')
    return room
  }

  newRoom(): Room {
    const room = new Room(this.name, () => this.step())
    this.rooms.set(room.id, room)
    return room
  }

  /** The next place of the stream; whoever waits for news looks again. */
  step(): number {
    this.#position++
    queueMicrotask(() => this.#wake())
    return this.#position
  }

  /** Puts an event into the inbox of a device. */
  deliver(device: Device, event: Json): void {
    device.inbox.push({ position: this.step(), event })
  }

  devicesChanged(userId: string): void {
    this.changes.push({ position: this.step(), userId })
  }

  /** Waits until something happens, at most so long. */
  async news(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer)
        this.#waiting.delete(done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.#waiting.add(done)
    })
  }

  /** Refuses a send of an account that has sent too many. */
  countSend(userId: string): void {
    if (!this.sends) return
    const { burst, perSecond } = this.sends
    const now = Date.now()
    const bucket = this.#buckets.get(userId) ?? { left: burst, at: now }
    bucket.left = Math.min(burst, bucket.left + ((now - bucket.at) / 1_000) * perSecond)
    bucket.at = now
    this.#buckets.set(userId, bucket)
    if (bucket.left < 1)
      throw new Refusal(429, 'M_LIMIT_EXCEEDED', 'Too Many Requests', {
        retry_after_ms: Math.ceil(((1 - bucket.left) / perSecond) * 1_000),
      })
    bucket.left--
  }

  demandSize(content: unknown): void {
    if (Buffer.byteLength(JSON.stringify(content)) > mostEventBytes)
      throw new Refusal(413, 'M_TOO_LARGE')
  }

  #wake(): void {
    for (const done of [...this.#waiting]) done()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = (status: number, body: unknown) => {
      if (response.destroyed) return
      response.writeHead(status, {
        'content-type': 'application/json',
        'access-control-allow-origin': '*',
        'access-control-allow-headers': 'authorization, content-type',
        'access-control-allow-methods': 'GET, POST, PUT, DELETE, OPTIONS',
      })
      response.end(JSON.stringify(body))
    }
    try {
      if (request.method === 'OPTIONS') return answer(200, {})
      const asked = await this.#read(request)
      const fault = this.fault?.({ ...asked, userId: asked.device?.userId })
      if (fault === 'silent') return
      if (fault === 'close') return void response.destroy()
      if (fault === 'cut') {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
        return void response.write('{"next_batch": "s1", ', () => response.destroy())
      }
      if (fault?.text !== undefined) return void response.writeHead(fault.status).end(fault.text)
      if (fault) return answer(fault.status, fault.body ?? {})
      const route = routes.find(
        ({ method, pattern }) => method === asked.method && pattern.test(asked.path),
      )
      if (!route) throw new Refusal(404, 'M_UNRECOGNIZED')
      const params = route.pattern.exec(asked.path)?.slice(1).map(decodeURIComponent) ?? []
      if (route.isPublic !== true) this.accounts.holderOf(asked.token)
      const body = await route.run(this, { ...asked, params })
      if (body instanceof Uint8Array)
        return void response
          .writeHead(200, { 'content-type': 'application/octet-stream' })
          .end(body)
      answer(200, body)
    } catch (error) {
      const path = new URL(request.url ?? '/', this.url).pathname
      if (error instanceof Refusal) {
        if (this.refused.length < mostSeen)
          this.refused.push(`${path} ${error.status} ${error.errcode}`)
        return answer(error.status, {
          errcode: error.errcode,
          error: error.message,
          ...error.more,
        })
      }
      answer(500, { errcode: 'M_UNKNOWN', error: String(error) })
    }
  }

  async #read(request: IncomingMessage): Promise<Omit<Asked, 'params'>> {
    const pieces: Buffer[] = []
    let size = 0
    for await (const piece of request) {
      size += piece.length
      if (size > mostBodyBytes) throw new Refusal(413, 'M_TOO_LARGE')
      pieces.push(piece)
    }
    const raw = Buffer.concat(pieces)
    const url = new URL(request.url ?? '/', this.url)
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1]
    const type = request.headers['content-type'] ?? ''
    const isJson = raw.length > 0 && type.includes('json')
    const body: Json = isJson ? JSON.parse(raw.toString()) : {}
    let device: Device | undefined
    try {
      device = this.accounts.holderOf(token)
    } catch {
      // Public routes need no device; the others refuse further down.
    }
    const method = request.method ?? 'GET'
    const agent = request.headers['user-agent'] ?? ''
    const path = url.pathname
    if (this.seen.length < mostSeen)
      this.seen.push({ method, path, userId: device?.userId, agent, body })
    return { method, path, query: url.searchParams, token, device, agent, type, body, raw }
  }
}
