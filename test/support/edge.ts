import { connect } from 'node:net'
import { onTestFinished } from 'vitest'
import type { AnyRoute, Log, RouteContext, User } from '../../core/plugin.ts'
import type { Access } from '../../core/runtime/http/routes/access.ts'
import { RuntimeError } from '../../core/errors.ts'
import { Http, type HttpOptions } from '../../core/runtime/http/http.ts'
import type { ServedMount } from '../../core/runtime/http/mounts.ts'
import type { ServedRoute } from '../../core/runtime/http/routes/run-route.ts'

export type { ServedMount }

/** One line of the log: its level, fields and sentence. */
export interface Logged {
  readonly level: string
  readonly fields: Record<string, unknown>
  readonly message: string
}

/** A running edge, and the ways to call it. */
export interface Edge {
  readonly http: Http
  readonly url: string
  readonly port: number
  readonly logged: Logged[]
  /** A fetch against the edge, with the body read as text and, where it is JSON, as a value. */
  call(method: string, path: string, init?: RequestInit): Promise<Called>
  /** Sends bytes as they stand, on a socket of their own; resolves to what came back until the server closed. */
  raw(bytes: string | Buffer, waitMs?: number): Promise<string>
}

/** An answer of the edge. */
export interface Called {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // any: a test states what it expects of the value, and fails when the value is another
  readonly json: any
}

type Routes = Record<string, AnyRoute | [owner: string, AnyRoute]>

/** The fake at the door: `Bearer good` is a user, anything else is nobody. */
export const fakeUser: User = {
  did: 'did:key:zGood',
  can: (ability) => ability === 'notes/read',
  denial: (ability) => [`no delegation grants ${ability}`],
}
/** The fake authentication of the edge, which knows `fakeUser` alone. */
export const fakeAccess: Access = {
  async byPlugin(_, __, find) {
    const found = await find()
    if (found) return { caller: found.caller }
    throw new RuntimeError('UNAUTHORIZED', 'No valid credential came with the request.')
  },
  async authorize(_, koa) {
    if (koa.headers.authorization === 'Bearer good') return { caller: fakeUser.did, user: fakeUser }
    if (koa.headers.authorization === 'Bearer key') return { caller: 'api-key' }
    throw new RuntimeError('UNAUTHORIZED', 'No valid credential came with the request.', {
      headers: { 'WWW-Authenticate': 'Bearer realm="oracle", error="invalid_token"' },
    })
  },
  demand(user, ability, resource) {
    if (user.can(ability, resource)) return
    throw new RuntimeError('FORBIDDEN', `This needs the capability "${ability}".`, {
      details: { causes: user.denial(ability, resource) },
    })
  },
  optional: async (koa) => (koa.headers.authorization === 'Bearer good' ? fakeUser : undefined),
}

/** A real server of the given routes on a free port, closed when the test ends. */
export async function edge(routes: Routes, options: Partial<HttpOptions> = {}): Promise<Edge> {
  const logged: Logged[] = []
  const at = (level: string) => (fields: object | string, message?: string) =>
    void logged.push(
      typeof fields === 'string'
        ? { level, fields: {}, message: fields }
        : { level, fields: { ...fields }, message: message ?? '' },
    )
  const log: Log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  const http = new Http({
    log,
    routes: Object.entries(routes).map(([key, declared]): ServedRoute => {
      const [owner, route] = Array.isArray(declared) ? declared : ['tests', declared]
      // The real context has more members; these tests are about those that the edge adds.
      const context: ServedRoute['context'] = (base) =>
        Object.assign(base, { env: {}, self: {} }) as unknown as RouteContext
      return { key, owner, route, context }
    }),
    access: fakeAccess,
    limits: { ratePerMinute: 100_000, trustProxy: false },
    cors: '*',
    version: '1.2.3',
    ...options,
  })
  const { url, port } = await http.listen({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => http.close(0))
  return {
    http,
    url,
    port,
    logged,
    async call(method, path, init) {
      const response = await fetch(url + path, { method, ...init })
      const text = await response.text()
      return { status: response.status, headers: response.headers, text, json: tryJson(text) }
    },
    raw: (bytes, waitMs) => raw(port, bytes, waitMs),
  }
}

/** JSON in a request. */
export function json(body: unknown, headers: Record<string, string> = {}): RequestInit {
  return {
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'Content-Type': 'application/json', ...headers },
  }
}

/** Sends bytes as they stand to a port; resolves to what came back until the server closed. */
export function raw(port: number, bytes: string | Buffer, waitMs = 10_000): Promise<string> {
  return new Promise((resolve) => {
    let received = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    const finish = () => {
      clearTimeout(timer)
      socket.destroy()
      resolve(received)
    }
    const timer = setTimeout(finish, waitMs)
    socket.setEncoding('latin1').on('data', (chunk: string) => (received += chunk))
    // A reset ends the socket like any close; only what was read before counts.
    socket.on('error', finish).on('close', finish)
  })
}

/** The status of the first response in what `raw` received, and its body as JSON. */
export function firstOf(received: string): { status: number; head: string; json: any } {
  const end = received.indexOf('\r\n\r\n')
  const head = received.slice(0, end)
  return {
    status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]),
    head,
    json: tryJson(received.slice(end + 4)),
  }
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
