/** What the app answered. */
export interface TestResponse {
  /** The HTTP status. */
  readonly status: number
  readonly headers: Headers
  /** Parsed when it is JSON, the text otherwise. */
  readonly body: any // any: a test asserts on it right away
  /** The body as it came. */
  readonly bytes: Uint8Array
}

/** Ways to call the app. A body that is an object travels as JSON, text and bytes as they are. */
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

/** Calls with these credentials, to the address at which the app listens when a call is made. */
export function callsTo(
  url: () => string,
  credentials: () => Promise<Record<string, string>>,
): Calls {
  async function send(
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
  ) {
    const isPlain = typeof body === 'string' || body instanceof Uint8Array
    const json = body !== undefined && !isPlain
    const response = await fetch(url() + path, {
      method,
      headers: {
        ...(json && { 'content-type': 'application/json' }),
        ...(await credentials()),
        ...headers,
      },
      body:
        body === undefined
          ? body
          : isPlain
            ? new Uint8Array(Buffer.from(body))
            : JSON.stringify(body),
    })
    const bytes = new Uint8Array(await response.arrayBuffer())
    const text = new TextDecoder().decode(bytes)
    const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '') && text !== ''
    return {
      status: response.status,
      headers: response.headers,
      body: isJson ? JSON.parse(text) : text,
      bytes,
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
