import type { AnyEvent } from '../core/events.ts'
import { backoff, pause, type Timing } from '../core/timing.ts'
import type { Tokens } from '../core/tokens.ts'

/** The channel of which session to open, and whom to tell what comes. */
export interface SocketOptions {
  readonly wsUrl: string
  readonly oracleDid: string
  readonly sessionId: string
  readonly tokens: Tokens
  readonly timing: Timing
  /** How far the history is read: the server tells of what was said since. */
  cursor(): string | undefined
  onEvent(event: AnyEvent): void
  onConnection(connected: boolean): void
}

/** The code with which a server closes the channel when it refuses the tokens. */
const refused = 4401
/** The code with which a server closes the channel when the session is another user's. */
const foreign = 4403
/** A server takes frames of 64 KiB, and a character of a string has up to three bytes. */
const longestFrame = 20_000
/** The longest wait between two tries, so that a server without the channel is not asked all the time. */
const patienceMs = 30_000

/** The event channel of one session, which connects again until somebody closes it. */
export class EventSocket {
  readonly #options: SocketOptions
  readonly #closing = new AbortController()
  #socket: WebSocket | undefined
  #connected = false

  constructor(options: SocketOptions) {
    this.#options = options
    if (typeof WebSocket !== 'undefined') void this.#keepOpen()
  }

  /** Sends a frame when there is a connection. A frame that is too long would end the connection, so it is left out. */
  send(frame: unknown): void {
    const text = JSON.stringify(frame)
    if (this.#connected && text.length <= longestFrame) this.#socket?.send(text)
  }

  /** Closes the channel for good. */
  close(): void {
    this.#closing.abort()
    this.#socket?.close()
  }

  async #keepOpen(): Promise<void> {
    const { signal } = this.#closing
    const { timing, tokens, oracleDid } = this.#options
    const slow = { ...timing, retryMs: timing.retryMs * 10, maxRetryMs: patienceMs }
    for (let tries = 1, refusals = 0; !signal.aborted; tries++) {
      const { code, wasConnected } = await this.#connect().catch(() => ({
        code: 0,
        wasConnected: false,
      }))
      if (wasConnected) tries = refusals = 0
      if (code === foreign || (code === refused && refusals++ > 0)) return
      if (code === refused) tokens.drop(oracleDid)
      await pause(wasConnected ? backoff(1, timing) : backoff(tries, slow), signal)
    }
  }

  /** Connects; resolves when the connection is over, to the code that closed it. */
  async #connect(): Promise<{ code: number; wasConnected: boolean }> {
    const { wsUrl, sessionId, oracleDid, tokens, cursor, onEvent, onConnection } = this.#options
    const [invocation, ucanDelegation] = await Promise.all([
      tokens.get('invocation', oracleDid),
      tokens.get('delegation', oracleDid),
    ])
    if (this.#closing.signal.aborted) return { code: 0, wasConnected: false }
    return new Promise((resolve) => {
      const socket = (this.#socket = new WebSocket(socketUrl(wsUrl)))
      let wasConnected = false
      socket.onopen = () =>
        socket.send(
          JSON.stringify({
            type: 'auth',
            sessionId,
            auth: { invocation, ucanDelegation },
            cursor: cursor(),
          }),
        )
      socket.onmessage = ({ data }) => {
        const frame = JSON.parse(data)
        if (frame.type === 'connected') onConnection((wasConnected = this.#connected = true))
        else if (frame.eventName) onEvent(frame)
      }
      socket.onclose = ({ code }) => {
        if (wasConnected) onConnection((this.#connected = false))
        resolve({ code, wasConnected })
      }
    })
  }
}

/** The address of the channel: below the API, unless the oracle names an address that ends in /ws. */
function socketUrl(wsUrl: string): string {
  const url = wsUrl.replace(/^http/, 'ws').replace(/\/+$/, '')
  return url.endsWith('/ws') ? url : `${url}/ws`
}
