import type { RawData, WebSocket } from 'ws'
import type { Framing, ClientFrame } from './framing.ts'
import type { ChannelLimits } from './limits.ts'
import type { RoomEvent } from './room-event.ts'

/** Why a socket is closed, as clients read it. */
export const closings = {
  left: [1000, ''],
  shuttingDown: [1012, 'The server restarts. Connect again.'],
  binary: [1003, 'Send text.'],
  broken: [1007, 'This is no frame of this protocol.'],
  tooMuch: [1008, 'Too many frames at once.'],
  tryLater: [1013, 'Try again later.'],
  unauthorized: [4401, 'No valid credential.'],
  expired: [4401, 'The credential has ended. Connect with a new one.'],
  revoked: [4401, 'The credential was revoked.'],
  foreign: [4403, 'You have no such session.'],
  tooMany: [4429, 'You have too many sockets. Close one.'],
  silent: [4408, 'No credential came in time.'],
} as const satisfies Record<string, readonly [code: number, reason: string]>

/** A reason to close a socket. */
export type Closing = keyof typeof closings

/** Whom a socket belongs to, and until when. */
interface Member {
  readonly did: string
  readonly cids: readonly string[]
  readonly expiresAt: number
  /** Undefined for a socket that hears of its user alone. */
  readonly sessionId: string | undefined
  /** Gives back the place that the socket holds among the sockets of its DID. */
  leave(): void
}

/** One socket, and the callbacks that it calls. */
export interface PeerOptions {
  readonly ws: WebSocket
  readonly framing: Framing
  readonly limits: ChannelLimits
  /** The address of the client, and the path it connected to. */
  readonly ip: string
  readonly path: string
  /** The session that the address of the socket names. */
  readonly sessionId: string | undefined
  /** Handles one frame; the next frame waits until this one is done. */
  work(peer: Peer, incoming: ClientFrame): Promise<void>
  onClosed(peer: Peer): void
  /** Called when a frame of the socket was too large, which closes the socket. */
  onTooLarge(peer: Peer): void
  /** Called with why the server cut the socket off. */
  onCut(peer: Peer, why: string): void
}

/** One socket: what it may send, what it gets, and when it ends. */
export class Peer {
  /** Set once the client has proved whose socket this is. */
  member: Member | undefined
  /** Notes that the client shows approvals no more; set while it shows them. */
  stopShowing: (() => void) | undefined
  /** The events of the user that the socket hears, once its client has asked for them. */
  userEvents: { end(): void } | undefined
  readonly framing: Framing
  readonly ip: string
  readonly path: string
  readonly sessionId: string | undefined
  readonly #options: PeerOptions
  readonly #ws: WebSocket
  readonly #since = performance.now()
  #asked: Set<string> | undefined
  #backlog: ClientFrame[] | undefined
  #frames: number
  #framesAt = this.#since
  #heardAt = this.#since
  #pingedAt = this.#since

  constructor(options: PeerOptions) {
    const { ws, framing, limits, ip, path, sessionId } = options
    this.#options = options
    this.#ws = ws
    this.framing = framing
    this.ip = ip
    this.path = path
    this.sessionId = sessionId
    this.#frames = limits.burst
    ws.on('message', (data, isBinary) => this.#read(data, isBinary))
    ws.on('ping', (data) => this.#pong(data))
    ws.on('pong', () => void this.#count())
    ws.on('error', ({ code }: NodeJS.ErrnoException) => {
      // After any error the socket closes, and `onClosed` is called.
      if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') options.onTooLarge(this)
    })
    ws.on('close', () => options.onClosed(this))
  }

  get isOpen(): boolean {
    return this.#ws.readyState === 1
  }

  /** The calls that the client was told of and that its runs may still wait for. */
  get asked(): readonly string[] {
    return [...(this.#asked ?? [])]
  }

  /** Tells the client of an event, but not twice of the same call. */
  tell(event: RoomEvent): void {
    if (event.asks !== undefined) {
      if (this.#asked?.has(event.asks)) return
      this.#asked ??= new Set()
      this.#asked.add(event.asks)
    }
    const frame = event.frame(this.framing)
    if (frame !== undefined) this.send(frame)
  }

  /** Forgets the calls that the client was told of, once a run has ended: none of them comes again. */
  forgetCalls(): void {
    this.#asked = undefined
  }

  send(text: string): void {
    if (this.#isStalled()) return
    this.#ws.send(text)
  }

  /** Sends a frame; resolves when the network has it, or the socket is closed. For events that come as fast as they are read. */
  sent(text: string): Promise<void> {
    if (this.#isStalled()) return Promise.resolve()
    return new Promise((resolve) => this.#ws.send(text, () => resolve()))
  }

  close(why: Closing): void {
    const [code, reason] = closings[why]
    this.#ws.close(code, reason)
  }

  /** Ends the connection without a closing frame, which the client would not read. */
  cut(why: string): void {
    this.#options.onCut(this, why)
    this.#ws.terminate()
  }

  /** Closes the socket when its time is over, and asks the client now and then whether it is still there. */
  look(now: number): void {
    const { limits } = this.#options
    if (!this.isOpen) return
    if (!this.member && now - this.#since > limits.authMs) return this.close('silent')
    if (this.member && this.member.expiresAt <= Date.now()) return this.close('expired')
    if (this.#pingedAt > this.#heardAt) {
      if (now - this.#pingedAt > limits.pongMs) this.cut('it does not answer')
    } else if (now - this.#pingedAt > limits.pingMs) {
      // Also while the client talks: clients of Socket.IO leave when no ping comes.
      this.#pingedAt = now
      const { ping } = this.framing
      if (ping !== undefined) this.send(ping)
      else if (!this.#isStalled()) this.#ws.ping()
    }
  }

  #read(data: RawData, isBinary: boolean): void {
    if (!this.isOpen || !this.#count()) return
    if (isBinary) {
      if (this.framing.name === 'plain') this.close('binary')
      return
    }
    const incoming = this.framing.read((data as Buffer).toString()) // ws gives text as one Buffer
    switch (incoming.kind) {
      case 'ping':
        return this.send(incoming.pong)
      case 'refused':
        return this.send(incoming.reply)
      case 'leave':
        return this.close('left')
      case 'broken':
        return this.close('broken')
      case 'auth':
      case 'answer':
        this.#enqueue(incoming)
    }
  }

  #enqueue(incoming: ClientFrame): void {
    if (this.#backlog) {
      if (this.#backlog.push(incoming) > this.#options.limits.backlog) this.close('tooMuch')
      return
    }
    this.#backlog = [incoming]
    void this.#workOff(this.#backlog)
  }

  async #workOff(backlog: ClientFrame[]): Promise<void> {
    for (let next; this.isOpen && (next = backlog.shift());) await this.#options.work(this, next)
    this.#backlog = undefined
  }

  /** Whether the client may send one more frame just now. */
  #count(): boolean {
    const { burst, perSecond } = this.#options.limits
    const now = performance.now()
    this.#heardAt = now
    this.#frames = Math.min(burst, this.#frames + ((now - this.#framesAt) / 1000) * perSecond)
    this.#framesAt = now
    if (this.#frames-- >= 1) return true
    this.close('tooMuch')
    return false
  }

  #pong(data: Buffer): void {
    if (this.#count() && !this.#isStalled()) this.#ws.pong(data)
  }

  /** Whether the client does not read, and then cuts it off: frames that wait for a client cost the server memory. */
  #isStalled(): boolean {
    if (!this.isOpen) return true
    if (this.#ws.bufferedAmount <= this.#options.limits.bufferBytes) return false
    this.cut('it does not read what it is sent')
    return true
  }
}
