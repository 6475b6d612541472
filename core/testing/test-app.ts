import type { AppOptions } from '../runtime/app.ts'
import { boot, type RunningApp } from '../runtime/app.ts'
import { Thread, type ThreadOptions } from './thread.ts'

export interface TestResponse {
  readonly status: number
  readonly headers: Headers
  /** Parsed when it is JSON, the text otherwise. */
  readonly body: any // any: a test asserts on it right away
}

type Send = (
  path: string,
  init?: { readonly body?: unknown; readonly headers?: Record<string, string> },
) => Promise<TestResponse>

/** A running app on a free loopback port, with everything in memory. */
export interface TestApp extends AsyncDisposable {
  readonly url: string
  readonly report: RunningApp['report']
  /** What the app logged, a line each. */
  readonly log: readonly string[]
  readonly get: Send
  readonly delete: Send
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<TestResponse>
  put(path: string, body?: unknown, headers?: Record<string, string>): Promise<TestResponse>
  patch(path: string, body?: unknown, headers?: Record<string, string>): Promise<TestResponse>
  /** A conversation without a model, to call tools in. */
  thread(options?: ThreadOptions): Thread
  close(): Promise<void>
}

/**
 * Boots plugins for a test. Nothing is read from the process's environment and nothing is written: the
 * database is in memory, keys are made up, and the network is whatever `fetch` is given.
 */
export async function testApp(options: AppOptions): Promise<TestApp> {
  const log: string[] = []
  const app = await boot({
    fetch: () => Promise.reject(new TypeError('No network in tests: give testApp a fakeFetch.')),
    ...options,
    env: { DATA_DIR: ':memory:', RATE_LIMIT_PER_MINUTE: '1000000', ...options.env },
    log: (line) => (log.push(line), options.log?.(line)),
  })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1' })

  const send = async (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) => {
    const json = body !== undefined && typeof body !== 'string'
    const response = await fetch(url + path, {
      method,
      headers: { ...(json && { 'content-type': 'application/json' }), ...headers },
      body: json ? JSON.stringify(body) : (body as string | undefined),
    })
    const text = await response.text()
    const isJson = /json/.test(response.headers.get('content-type') ?? '') && text !== ''
    return {
      status: response.status,
      headers: response.headers,
      body: isJson ? JSON.parse(text) : text,
    }
  }

  return {
    url,
    log,
    get report() {
      return app.report
    },
    get: (path, init) => send('GET', path, undefined, init?.headers),
    delete: (path, init) => send('DELETE', path, init?.body, init?.headers),
    post: (path, body, headers) => send('POST', path, body, headers),
    put: (path, body, headers) => send('PUT', path, body, headers),
    patch: (path, body, headers) => send('PATCH', path, body, headers),
    thread: (options) => new Thread(app, options),
    close: () => app.close(),
    [Symbol.asyncDispose]: () => app.close(),
  }
}
