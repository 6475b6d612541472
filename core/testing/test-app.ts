import type { Grant } from '../runtime/auth/grants/rows.ts'
import type { AppOptions } from '../runtime/app.ts'
import { boot } from '../runtime/app.ts'
import type { RunningApp } from '../runtime/running-app.ts'
import { Thread, type ThreadOptions } from './thread.ts'
import { say, type Said, type SayOptions } from './turn.ts'
import type { Wallet } from './wallet.ts'

/** What the app answered. */
export interface TestResponse {
  /** The HTTP status. */
  readonly status: number
  readonly headers: Headers
  /** Parsed when it is JSON, the text otherwise. */
  readonly body: any // any: a test asserts on it right away
}

/** Ways to call the app. A body that is an object travels as JSON, text as it is. */
export interface Calls {
  /** Reads. */
  get(path: string, init?: CallInit): Promise<TestResponse>
  /** Deletes. */
  delete(path: string, init?: CallInit): Promise<TestResponse>
  /** Sends something new. */
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<TestResponse>
  /** Replaces. */
  put(path: string, body?: unknown, headers?: Record<string, string>): Promise<TestResponse>
  /** Changes a part. */
  patch(path: string, body?: unknown, headers?: Record<string, string>): Promise<TestResponse>
}

/** What a GET or a DELETE may carry. */
export interface CallInit {
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

/** A user with a wallet of their own: every call carries a fresh invocation and a delegation. */
export interface TestUser extends Calls {
  /** The user's DID. */
  readonly did: string
  /** The user's key, to make tokens of one's own with. */
  readonly wallet: Wallet
  /** Sends a message and reads its turn to the end. */
  say(message: string, options?: SayOptions): Promise<Said>
  /** Grants the user rights on the oracle's DID, as an operator does: `registry/*`, `notes/read`. Each call adds. */
  granted(...capabilities: string[]): Promise<Grant>
}

/** A running app on a free loopback port, with everything in memory. */
export interface TestApp extends Calls, AsyncDisposable {
  /** Where the app listens. */
  readonly url: string
  /** The DID of the oracle. */
  readonly oracleDid: string
  /** What boot made of every plugin, tool and route. */
  readonly report: RunningApp['report']
  /** What the app logged, a line each. */
  readonly log: readonly string[]
  /** A user who calls the locked routes. The same words give the same user; without words the user is a new one. */
  user(words?: string): Promise<TestUser>
  /** A conversation without a model, to call tools in. */
  thread(options?: ThreadOptions): Thread
  /** Stops the app; `await using` does so at the end of the test. */
  close(): Promise<void>
}

/**
 * Boots plugins for a test. The app reads nothing from the process's environment and writes nothing: the database is
 * in memory, keys are made up, and the network is whatever `fetch` the test gives.
 */
export async function testApp(options: AppOptions): Promise<TestApp> {
  const log: string[] = []
  const app = await boot({
    fetch: () => Promise.reject(new TypeError('No network in tests: give testApp a fakeFetch.')),
    ...options,
    env: { DATA_DIR: ':memory:', ...generousLimits, ...options.env },
    log: (line) => (log.push(line), options.log?.(line)),
  })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
  const { oracleDid } = app

  return {
    ...callsTo(url, async () => ({})),
    url,
    oracleDid,
    log,
    get report() {
      return app.report
    },
    async user(words) {
      const { createWallet } = await import('./wallet.ts') // heavy, and most tests have no user
      const wallet = await createWallet(words)
      const credentials = () => wallet.headers(oracleDid)
      return {
        ...callsTo(url, credentials),
        did: wallet.did,
        wallet,
        say: (message, options) => say(url, credentials, message, options),
        granted: (...capabilities) => app.grant({ did: wallet.did, capabilities, days: 1 }),
      }
    },
    thread: (options) => new Thread(app, options),
    close: () => app.close(),
    [Symbol.asyncDispose]: () => app.close(),
  }
}

/** A test may call as often as it likes, unless it is about limits, and its process is not a server's to end. */
const generousLimits = {
  EVENT_LOOP_LIMIT_MS: '0',
  RATE_LIMIT_PER_MINUTE: '1000000',
  CALLS_PER_MINUTE: '1000000',
  AUTH_FAILURES_PER_MINUTE: '1000000',
  TURNS_AT_ONCE: '1000000',
  TURNS_PER_DAY: '1000000',
  TURNS_AT_ONCE_TOTAL: '1000000',
  SOCKETS_PER_DID: '1000000',
  SOCKETS_PER_ADDRESS: '1000000',
  STREAMS_PER_ADDRESS: '1000000',
}

function callsTo(url: string, credentials: () => Promise<Record<string, string>>): Calls {
  async function send(
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
  ) {
    const json = body !== undefined && typeof body !== 'string'
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(json && { 'content-type': 'application/json' }),
        ...(await credentials()),
        ...headers,
      },
      body: typeof body === 'string' || body === undefined ? body : JSON.stringify(body),
    })
    const text = await response.text()
    const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '') && text !== ''
    return {
      status: response.status,
      headers: response.headers,
      body: isJson ? JSON.parse(text) : text,
    }
  }
  return {
    get: (path, init) => send('GET', path, undefined, init?.headers),
    delete: (path, init) => send('DELETE', path, init?.body, init?.headers),
    post: (path, body, headers) => send('POST', path, body, headers),
    put: (path, body, headers) => send('PUT', path, body, headers),
    patch: (path, body, headers) => send('PATCH', path, body, headers),
  }
}
