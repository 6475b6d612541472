import { faultOf, refusal, ServerFault } from './fault.ts'

/** One request to the messaging server. */
export interface ServerCall {
  readonly body?: unknown
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  /** Bytes in place of JSON. */
  readonly bytes?: Uint8Array
  readonly type?: string
  /** False: without the token. */
  readonly authenticated?: boolean
}

/** How long a request may take, where nothing else is said. */
export const usualMs = 30_000
/** The most bytes of a JSON answer. */
const mostBytes = 64 * 1024 * 1024

type Fields = Record<string, any> // any: the server's answers are read field by field, each with a check

/** The client-server interface of a messaging server. Every request has a deadline, every answer a size. */
export class ServerApi {
  readonly #baseUrl: string
  readonly #fetch: typeof globalThis.fetch
  /** Asked before each request: it rejects while nothing may leave this process, and what it throws is no fault of the server. */
  readonly #mayLeave: () => Promise<void>
  token: string | undefined

  constructor(
    baseUrl: string,
    fetch: typeof globalThis.fetch,
    mayLeave: () => Promise<void> = async () => {},
  ) {
    this.#baseUrl = baseUrl
    this.#fetch = fetch
    this.#mayLeave = mayLeave
  }

  get(path: string, call: ServerCall = {}): Promise<Fields> {
    return this.#json('GET', path, call)
  }

  post(path: string, body: unknown, call: ServerCall = {}): Promise<Fields> {
    return this.#json('POST', path, { ...call, body })
  }

  put(path: string, body: unknown, call: ServerCall = {}): Promise<Fields> {
    return this.#json('PUT', path, { ...call, body })
  }

  delete(path: string, call: ServerCall = {}): Promise<Fields> {
    return this.#json('DELETE', path, call)
  }

  /** Does what the server wants the password for once more, whoever has the token. */
  async withPassword(
    method: 'POST' | 'DELETE',
    path: string,
    body: object,
    { user, password }: { readonly user: string; readonly password: string },
  ): Promise<void> {
    const timeoutMs = usualMs
    let session: unknown
    await this.#mayLeave()
    try {
      const answer = await this.#ask(method, path, { body, timeoutMs })
      const told: unknown = await jsonOf(answer)
      if (answer.ok) return
      const asks = answer.status === 401 && typeof told === 'object' && told !== null
      session = asks && 'session' in told ? told.session : undefined
      if (typeof session !== 'string') throw refusal(answer.status, told, null)
    } catch (thrown) {
      throw faultOf(thrown, timeoutMs)
    }
    const identifier = { type: 'm.id.user', user }
    const auth = { type: 'm.login.password', identifier, password, session }
    await this.#json(method, path, { body: { ...body, auth } })
  }

  /** The same for the answers that are lists. */
  async list(path: string, call: ServerCall = {}): Promise<readonly unknown[]> {
    const { list } = await this.#json('GET', path, call)
    return Array.isArray(list) ? list : []
  }

  /** Puts bytes on the media store; resolves to their `mxc:` address. */
  async upload(bytes: Uint8Array, type: string): Promise<string> {
    const answer = await this.#json('POST', '/_matrix/media/v3/upload', { bytes, type })
    return String(answer.content_uri ?? '')
  }

  /** The bytes behind an `mxc:` address; undefined when they are more than `most`. */
  async download(uri: string, most: number, signal?: AbortSignal): Promise<Uint8Array | undefined> {
    const [, server = '', id = ''] = /^mxc:\/\/([^/]+)\/([^/?#]+)$/.exec(uri) ?? []
    const path = `/_matrix/client/v1/media/download/${encodeURIComponent(server)}/${encodeURIComponent(id)}`
    const timeoutMs = usualMs
    await this.#mayLeave()
    try {
      const answer = await this.#ask('GET', path, { signal, timeoutMs })
      if (!answer.ok) throw refusal(answer.status, await jsonOf(answer), null)
      return await bytesOf(answer, most)
    } catch (thrown) {
      throw faultOf(thrown, timeoutMs)
    }
  }

  async #json(method: string, path: string, call: ServerCall): Promise<Fields> {
    const timeoutMs = call.timeoutMs ?? usualMs
    await this.#mayLeave()
    let answer: Response
    let body: unknown
    try {
      answer = await this.#ask(method, path, { ...call, timeoutMs })
      body = await jsonOf(answer)
    } catch (thrown) {
      if (call.signal?.aborted) throw thrown
      throw faultOf(thrown, timeoutMs)
    }
    if (!answer.ok) throw refusal(answer.status, body, answer.headers.get('retry-after'))
    if (Array.isArray(body)) return { list: body }
    if (typeof body !== 'object' || body === null)
      throw new ServerFault('foreign', 'no Matrix server answers there', { status: answer.status })
    return body
  }

  async #ask(method: string, path: string, call: ServerCall): Promise<Response> {
    const { body, bytes, type, query = {}, timeoutMs = usualMs, signal } = call
    const url = new URL(this.#baseUrl + path)
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, value)
    const deadline = AbortSignal.timeout(timeoutMs)
    return this.#fetch(url, {
      method,
      redirect: 'error',
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      headers: {
        ...(this.token !== undefined &&
          call.authenticated !== false && { authorization: `Bearer ${this.token}` }),
        ...((body !== undefined || bytes) && { 'content-type': type ?? 'application/json' }),
      },
      ...(bytes
        ? { body: Buffer.from(bytes) }
        : body !== undefined && { body: JSON.stringify(body) }),
    })
  }
}

async function jsonOf(answer: Response): Promise<unknown> {
  const bytes = await bytesOf(answer, mostBytes)
  if (!bytes) throw new ServerFault('foreign', 'its answer is too large')
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'))
  } catch {
    // What is no JSON is told by the status alone.
    return undefined
  }
}

/** The bytes of an answer; undefined when there are more than `most`. */
async function bytesOf(answer: Response, most: number): Promise<Uint8Array | undefined> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of answer.body ?? []) {
    size += piece.length
    // Leaving the loop cancels the rest of the answer.
    if (size > most) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** A path of the client-server interface, its parts encoded. */
export const path = (strings: TemplateStringsArray, ...parts: readonly string[]): string =>
  '/_matrix/client/v3' +
  String.raw({ raw: strings }, ...parts.map((part) => encodeURIComponent(part)))
