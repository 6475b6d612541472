import type { AnyEvent } from '../core/events.ts'
import { backoff, pause, type Timing } from '../core/timing.ts'
import type { Tokens } from '../core/tokens.ts'

export interface SocketOptions {
  readonly wsUrl: string
  readonly oracleDid: string
  readonly sessionId: string
  readonly tokens: Tokens
  readonly timing: Timing
  onEvent(event: AnyEvent): void
  onConnection(connected: boolean): void
}

/** What the server closes with when it does not take the credentials, or the session is another's. */
const refused = 4401
const foreign = 4403
/** A server takes 64 KiB, and a character has up to three bytes. */
const longestFrame = 20_000
/** A server without the channel is not asked all the time. */
const patienceMs = 30_000

/** The event channel of one session, made again as long as it is wanted. */
export class EventSocket {
  readonly #options: SocketOptions
  readonly #closing = new AbortController()
  #socket: WebSocket | undefined
  #connected = false

  constructor(options: SocketOptions) {
    this.#options = options
    if (typeof WebSocket !== 'undefined') void this.#keepOpen()
  }

  /** Sends a frame where there is a connection; one that is too long would end it. */
  send(frame: unknown): void {
    const text = JSON.stringify(frame)
    if (this.#connected && text.length <= longestFrame) this.#socket!.send(text)
  }

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

  /** Resolves when the connection is over, to how that came. */
  async #connect(): Promise<{ code: number; wasConnected: boolean }> {
    const { wsUrl, sessionId, oracleDid, tokens, onEvent, onConnection } = this.#options
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
          JSON.stringify({ type: 'auth', sessionId, auth: { invocation, ucanDelegation } }),
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

/** Where the channel is: beside the API, or where the oracle says. */
function socketUrl(wsUrl: string): string {
  const url = wsUrl.replace(/^http/, 'ws').replace(/\/+$/, '')
  return url.endsWith('/ws') ? url : `${url}/ws`
}
