import { onTestFinished } from 'vitest'
import { WebSocket, type ClientOptions } from 'ws'
import type { TestUser } from '#core/testing'

/** A socket of a client, with all that it heard. */
export interface ClientSocket {
  readonly ws: WebSocket
  /** Every text frame, in order. */
  readonly heard: readonly string[]
  /** The first frame, heard or yet to come, for which `pick` returns something. */
  find<T>(pick: (text: string) => T | undefined): Promise<T>
  send(frame: object | string): void
  readonly opened: Promise<void>
  readonly closed: Promise<{ code: number; reason: string }>
  /** Cuts the connection, as a lost network does. */
  kill(): void
}

/** Connects a socket, which ends with the test. */
export function connect(address: string, options: ClientOptions = {}): ClientSocket {
  const ws = new WebSocket(address.replace(/^http/, 'ws'), { perMessageDeflate: false, ...options })
  const heard: string[] = []
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const tell of waiting) tell()
  }
  const opened = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<{ code: number; reason: string }>()
  let isClosed = false
  opened.promise.catch(() => undefined)
  ws.on('open', () => opened.resolve())
  ws.on('error', (error) => opened.reject(error))
  ws.on('message', (data) => (heard.push(String(data)), wake()))
  ws.on('close', (code, reason) => {
    isClosed = true
    closed.resolve({ code, reason: String(reason) })
    wake()
  })
  onTestFinished(() => ws.terminate())
  return {
    ws,
    heard,
    async find(pick) {
      for (let from = 0; ;) {
        for (; from < heard.length; from++) {
          const found = pick(heard[from]!)
          if (found !== undefined) return found
        }
        if (isClosed) throw new Error(`the socket closed; it had heard ${heard.join('\n')}`)
        await new Promise<void>((resolve) => {
          const tell = () => (waiting.delete(tell), resolve())
          waiting.add(tell)
        })
      }
    },
    send: (frame) => ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    opened: opened.promise,
    closed: closed.promise,
    kill: () => ws.terminate(),
  }
}

/** The credentials of a client of a socket, as its handshake carries them. */
export interface Tokens {
  readonly invocation?: string
  readonly ucanDelegation?: string
  /** Says that the client shows approvals. */
  readonly approvals?: unknown
}

/** A client of either framing that has entered a session. */
export interface SessionSocket extends ClientSocket {
  /** The payload of the first event of this name, or of the nth. */
  event(name: string, nth?: number): Promise<any> // any: a test asserts on it right away
  /** The payloads of this name so far. */
  events(name: string): any[]
  /** Hands in the result of a call. */
  answer(
    answer: { toolCallId: string; sessionId?: string; result?: unknown; error?: unknown },
    type?: string,
  ): void
}

/** Both framings, as their clients speak them. */
export const framings = {
  plain: plainSocket,
  'socket.io': ioSocket,
} as const

/** Speaks the plain framing. */
export async function plainSocket(
  url: string,
  sessionId: string,
  { approvals, ...auth }: Tokens,
  options: ClientOptions = {},
): Promise<SessionSocket> {
  const socket = connect(`${url}/ws`, options)
  await socket.opened
  socket.send({ type: 'auth', sessionId, auth, approvals })
  await socket.find((text) => (JSON.parse(text).type === 'connected' ? true : undefined))
  return withEvents(socket, plainEvent, (answer, type) => socket.send({ type, ...answer }))
}

const plainEvent = (text: string) => {
  const { eventName, payload } = JSON.parse(text)
  return eventName === undefined ? undefined : { name: eventName, payload }
}

/** Speaks the framing of the published client. */
export async function ioSocket(
  url: string,
  sessionId: string,
  auth: Tokens,
  options: ClientOptions = {},
): Promise<SessionSocket> {
  const query = new URLSearchParams({ sessionId, userDid: 'did:ixo:anybody', EIO: '4' })
  const socket = connect(`${url}/socket.io/?${query}&transport=websocket`, options)
  await socket.find((text) => (text[0] === '0' ? true : undefined))
  socket.send(`40${JSON.stringify(auth)}`)
  await socket.find((text) => (text.startsWith('42["connected"') ? true : undefined))
  socket.ws.on('message', (data) => String(data) === '2' && socket.send('3'))
  return withEvents(socket, ioEvent, (answer, type) =>
    socket.send(`42${JSON.stringify([type, answer])}`),
  )
}

const ioEvent = (text: string) => {
  if (!text.startsWith('42')) return undefined
  const [name, data] = JSON.parse(text.slice(2))
  return name === 'event'
    ? { name: data.eventName, payload: data.payload }
    : { name, payload: data }
}

function withEvents(
  socket: ClientSocket,
  read: (text: string) => { name: string; payload: unknown } | undefined,
  answer: (answer: object, type: string) => void,
): SessionSocket {
  const events = (name: string) =>
    socket.heard.flatMap((text) => {
      const event = read(text)
      return event?.name === name ? [event.payload] : []
    })
  return {
    ...socket,
    events,
    event(name, nth = 0) {
      let seen = 0
      return socket.find((text) => {
        const event = read(text)
        return event?.name === name && seen++ === nth ? event.payload : undefined
      })
    },
    answer: (given, type = 'tool_result') => answer(given, type),
  }
}

/** The credentials of a user, as a handshake carries them. */
export async function tokensOf(
  { wallet }: Pick<TestUser, 'wallet'>,
  audience: string,
  lifetime = 300,
): Promise<Required<Pick<Tokens, 'invocation' | 'ucanDelegation'>>> {
  const [invocation, delegation] = await Promise.all([
    wallet.invoke({ audience, lifetime }),
    wallet.delegate({ audience }),
  ])
  return { invocation: invocation.text, ucanDelegation: delegation.text }
}
