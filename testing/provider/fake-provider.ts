import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { nodeHttp } from '../../core/runtime/base/node-http.ts'
import type {
  ProviderAnswer,
  ProviderFailure,
  ProviderRequest,
  ProviderRules,
  ProviderSpeech,
} from './answers.ts'
import { embedded } from './embeddings.ts'
import { listed } from './lists.ts'
import { mediaIn } from './media.ts'
import { CallMemory } from './memory.ts'
import { fieldsIn, parsed, textOf } from './read.ts'
import { sendFailure, sendJson, sendSpeech } from './send.ts'
import { Signer } from './signer.ts'
import { bytesPerToken } from './spoken.ts'
import type { Provider, Wire } from './wire.ts'
import { chat } from './wires/chat.ts'
import { generateContent } from './wires/generate-content.ts'
import { messages } from './wires/messages.ts'
import { ollama } from './wires/ollama.ts'
import { responses } from './wires/responses.ts'

const wires: readonly Wire[] = [messages, responses, generateContent, chat, ollama]

/** What a fake provider is made with. */
export interface FakeProviderOptions extends ProviderRules {
  /** The key that it takes; by default a new one. */
  readonly key?: string
}

/** A provider of models on a free loopback port: five wires, with embeddings and lists of models. */
export class FakeProvider implements AsyncDisposable {
  /** Where it listens, without a version: `http://127.0.0.1:<port>`. */
  readonly url: string
  /** The key that it takes. Another one is refused, in words that quote it. */
  readonly key: string
  /** What it takes and what it refuses; a test may change it between two requests. */
  readonly rules: ProviderRules
  /** Every request so far, in order, also those that were refused. */
  readonly requests: ProviderRequest[] = []
  /** The sentence of each request that was refused because of what it said. */
  readonly refusals: string[] = []
  /** What it answers when no answer is left. */
  otherwise: ProviderAnswer = 'Hello.'
  readonly #server: Server
  readonly #provider: Provider
  readonly #answers: ProviderAnswer[] = []
  readonly #waiting: ((request: ProviderRequest) => void)[] = []
  #taken = 0
  #failed = 0

  /** Answers what comes to a server that listens. */
  constructor(server: Server, { key, ...rules }: FakeProviderOptions) {
    this.#server = server
    this.key = key ?? `sk-fake-${randomBytes(24).toString('hex')}`
    this.rules = { ...rules }
    this.#provider = { rules: this.rules, signer: new Signer(), memory: new CallMemory() }
    this.url = `http://127.0.0.1:${fieldsIn(server.address()).port}`
    server.on('request', (request, response) => void this.#take(request, response))
  }

  /** Says how the next requests for an answer are answered, one each. What is refused uses none up. */
  answer(...answers: readonly ProviderAnswer[]): void {
    this.#answers.push(...answers)
  }

  /** How many answers no request has had yet. */
  get remaining(): number {
    return this.#answers.length
  }

  /** Forgets the answers that no request has had. */
  clear(): void {
    this.#answers.length = 0
    this.#failed = 0
  }

  /** The oldest request that no call of `next` has had; waits for one where there is none. */
  next(): Promise<ProviderRequest> {
    const request = this.requests[this.#taken]
    if (!request) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#taken++
    return Promise.resolve(request)
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

  async #take(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const leaving = new AbortController()
    response.once('close', () => {
      if (!response.writableFinished) leaving.abort()
    })
    const raw = await buffer(incoming).catch(() => undefined)
    if (!raw) return // the client gave up half-way
    const request = requestOf(incoming, raw, leaving.signal)
    this.#note(request)
    try {
      await this.#answer(request, response)
    } catch (error) {
      // Who left gets no answer; a fault of an answer's function is shown as a server's own.
      if (leaving.signal.aborted || response.headersSent) response.destroy()
      else sendJson(response, 500, { error: { message: String(error) } })
    }
  }

  async #answer(request: ProviderRequest, response: ServerResponse): Promise<void> {
    const wire = wires.find(({ name }) => name === request.wire)
    const { pathname } = new URL(request.path, this.url)
    const isOpen = wire?.isOpen ?? pathname.startsWith('/api/')
    const speaker = wire ?? speakerOf(pathname, request)
    if (!isOpen && speaker.keyOf(request) !== this.key) {
      const { message, code } = speaker.failure({ status: 401 }, request)
      const status = speaker.keyStatus ?? 401
      return sendJson(response, status, speaker.error(status, message, code))
    }
    if (!wire) return this.#aside(request, response, speaker)
    const { models } = this.rules
    if (models && !models.includes(request.model))
      return sendFailure({ status: 404 }, wire, request, response)
    await this.#speak(wire, request, response)
  }

  /** Answers what asks for no words: embeddings, lists, and what is nowhere. */
  #aside(request: ProviderRequest, response: ServerResponse, speaker: Wire): void {
    const vectors = embedded(request, this.rules)
    if (vectors) return sendJson(response, vectors.status, vectors.body)
    const list = listed(request, this.rules)
    if (list !== undefined) return sendJson(response, 200, list)
    sendJson(response, 404, speaker.error(404, `Nothing answers at ${request.path}.`))
  }

  async #speak(wire: Wire, request: ProviderRequest, response: ServerResponse): Promise<void> {
    const [next = this.otherwise] = this.#answers
    // A server that is out of order says so before it reads the request.
    if (!isFailure(next) && this.rules.strict !== false) {
      const refusal =
        halved(wire, request) ?? wire.refusal(request, this.#provider) ?? unstreamed(wire, request)
      if (refusal) {
        this.refusals.push(refusal.message)
        return sendJson(response, refusal.status, refusal.body)
      }
    }
    this.#use(next)
    let answer = next
    while (typeof answer === 'function') answer = await answer(request)
    if (answer === 'silence') return
    if (answer === 'break') return void response.destroy()
    if (isFailure(answer)) return sendFailure(answer, wire, request, response)
    const speech: ProviderSpeech = typeof answer === 'string' ? { text: answer } : answer
    await sendSpeech(speech, wire, request, response, this.#provider)
  }

  /** Takes an answer from the list; a failure stays there for as many requests as it says. */
  #use(answer: ProviderAnswer): void {
    if (isFailure(answer) && ++this.#failed < (answer.times ?? 1)) return
    this.#failed = 0
    this.#answers.shift()
  }

  #note(request: ProviderRequest): void {
    this.requests.push(request)
    const waiting = this.#waiting.shift()
    if (!waiting) return
    this.#taken++
    waiting(request)
  }
}

/**
 * A provider of models for tests. It listens on this machine and speaks the wires of the providers that most people use,
 * is as strict as they are, remembers its requests, and fails as it is told.
 */
export async function fakeProvider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const server = nodeHttp.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return new FakeProvider(server, options)
}

const isFailure = (answer: ProviderAnswer): answer is ProviderFailure =>
  typeof answer === 'object' && 'status' in answer

/** The wire whose words an address uses that asks for no answer. */
function speakerOf(pathname: string, { headers }: ProviderRequest): Wire {
  if (headers['anthropic-version']) return messages
  return pathname.startsWith('/v1beta/') || headers['x-goog-api-key'] ? generateContent : chat
}

/** Why a request is refused that holds half of a surrogate pair: strict parsers take it for no JSON. */
function halved(wire: Wire, { body }: ProviderRequest) {
  if (!/(?<!\\)(?:\\\\)*\\ud/.test(JSON.stringify(body))) return undefined
  const message = 'The request body is not valid JSON: no low surrogate in string.'
  return { status: 400, message, body: wire.error(400, message) }
}

/** Why a request for one whole answer is refused: the fake streams. */
function unstreamed(wire: Wire, { body }: ProviderRequest) {
  const isStream = body.stream === true || (wire === ollama && body.stream !== false)
  if (isStream || wire === generateContent) return undefined
  const message = 'This provider answers as a stream: send "stream": true.'
  return { status: 400, message, body: wire.error(400, message) }
}

function requestOf(incoming: IncomingMessage, raw: Buffer, gone: AbortSignal): ProviderRequest {
  const path = incoming.url ?? '/'
  const { pathname } = new URL(path, 'http://localhost')
  const wire = wires.find((each) => incoming.method === 'POST' && each.matches(pathname))
  const text = raw.toString()
  const body = fieldsIn(parsed(text))
  return {
    wire: wire?.name,
    method: incoming.method ?? '',
    path,
    model: wire?.modelIn?.(pathname) ?? textOf(body.model),
    headers: incoming.headers,
    text,
    body,
    tokens: Math.ceil(raw.length / bytesPerToken),
    media: mediaIn(body.messages ?? body.input ?? body.contents),
    gone,
  }
}
