import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { fieldsIn } from '../runtime/base/fields.ts'
import { nodeHttp } from '../runtime/base/node-http.ts'
import { verifyWebhook } from '../webhooks/verify-webhook.ts'

/**
 * How a receiver answers one webhook: with a status, with headers as well, with nothing at all until the sender gives up,
 * or by breaking the connection.
 */
export type WebhookAnswer =
  | number
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  | 'silence'
  | 'break'

/** A webhook that the receiver has read. */
export interface ReceivedWebhook {
  /** The `webhook-id`: the same in every attempt. */
  readonly id: string
  /** Whether the signature is right; where it is not, the answer is 401. */
  readonly isValid: boolean
  /** The status of the answer; undefined where none was given. */
  readonly status: number | undefined
  /** Parsed when it is JSON, the text otherwise. */
  readonly body: unknown
  /** The headers, with their names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/** What a receiver is made with. */
export interface FakeWebhookOptions {
  /** The secret that signatures are checked with; by default a new one. */
  readonly secret?: string
}

/** A receiver of webhooks on a free loopback port. */
export class FakeWebhook implements AsyncDisposable {
  /** Where to deliver to. */
  readonly url: string
  /** The secret to sign with. */
  readonly secret: string
  /** Every webhook so far, in order, those with a wrong signature among them. */
  readonly received: ReceivedWebhook[] = []
  readonly #server: Server
  readonly #answers: WebhookAnswer[] = []
  readonly #waiting: ((webhook: ReceivedWebhook) => void)[] = []
  #taken = 0

  /** Receives what comes to a server that listens. */
  constructor(server: Server, secret: string) {
    this.#server = server
    this.secret = secret
    this.url = `http://127.0.0.1:${fieldsIn(server.address()).port}/hook`
    server.on('request', (request, response) => void this.#receive(request, response))
  }

  /** Says how the next webhooks are answered, one each; those after them get 204. */
  answer(...answers: readonly WebhookAnswer[]): void {
    this.#answers.push(...answers)
  }

  /** The oldest webhook that no call of `next` has had; waits for one where there is none. */
  next(): Promise<ReceivedWebhook> {
    const webhook = this.received[this.#taken]
    if (!webhook) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#taken++
    return Promise.resolve(webhook)
  }

  /** Stops; `await using` does so at the end of the test. */
  async close(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const raw = await buffer(request).catch(() => undefined)
    if (!raw) return // the sender gave up half-way
    const { headers } = request
    const isValid = verifyWebhook({ secret: this.secret, headers, body: raw })
    const answer = isValid ? (this.#answers.shift() ?? 204) : 401
    const told = typeof answer === 'number' ? { status: answer } : answer
    const status = typeof told === 'string' ? undefined : told.status
    const id = String(headers['webhook-id'] ?? '')
    if (typeof told === 'object') response.writeHead(told.status, told.headers).end()
    else if (told === 'break') request.socket.destroy()
    this.#note({ id, isValid, status, body: parsed(raw.toString()), headers })
  }

  #note(webhook: ReceivedWebhook): void {
    this.received.push(webhook)
    const waiting = this.#waiting.shift()
    if (!waiting) return
    this.#taken++
    waiting(webhook)
  }
}

/**
 * A receiver of webhooks for tests: it listens on this machine, checks every signature, remembers what it got and fails
 * when the test has told it to.
 */
export async function fakeWebhook({ secret }: FakeWebhookOptions = {}): Promise<FakeWebhook> {
  const server = nodeHttp.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return new FakeWebhook(server, secret ?? `whsec_${randomBytes(32).toString('base64')}`)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
