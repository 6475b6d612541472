import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTick, setTimeout as pause } from 'node:timers/promises'

/** A request as the fake provider saw it. */
export interface FakeRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** The body as it came. */
  readonly text: string
  readonly body: {
    readonly model: string
    readonly stream?: boolean
    readonly stream_options?: unknown
    readonly messages: readonly Record<string, unknown>[]
    readonly tools?: readonly { readonly function: Record<string, unknown> }[]
  }
  /** Fires when the client goes away before the answer is complete. */
  readonly gone: AbortSignal
}

/** One answer of the fake provider. A string is short for `{ text }`. */
export type FakeAnswer = string | FakeSpeech

/** What one answer of the fake provider says, and how it goes over the wire. */
export interface FakeSpeech {
  /** A string is cut into words, one per chunk. An array is sent as it is, empty strings too. */
  readonly text?: string | readonly string[]
  readonly reasoning?: string
  /** The field that carries the reasoning; providers differ. */
  readonly reasoningField?: 'reasoning_content' | 'reasoning'
  /** `args` that are text go out as they are; `index` and `id` can be made as wrong as providers do. */
  readonly toolCalls?: readonly {
    readonly name: string
    readonly args?: unknown
    readonly id?: string | null
    readonly index?: number | null
  }[]
  /** Characters of arguments in one chunk. */
  readonly argsPerChunk?: number
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number }
  /** The id of the completion; by default every completion has the same. */
  readonly id?: string

  /** Before the head of the answer, and between two chunks, in milliseconds. */
  readonly delayMs?: number
  readonly paceMs?: number
  /** The bytes of one write, so that chunks break anywhere, inside a letter too. */
  readonly bytesPerWrite?: number
  readonly lineEnd?: '\n' | '\r\n' | '\r'
  /** Comment lines before every chunk. */
  readonly comments?: boolean
  /** Answers as one JSON body, as servers do that ignore `stream`. */
  readonly json?: boolean
  /** False leaves the closing `[DONE]` or the `finish_reason` out. */
  readonly done?: boolean
  readonly finish?: string | false

  /** Instead of an answer: a status with a body, and headers such as `retry-after`. */
  readonly status?: number
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /**
   * After the text: an error in the stream, a cut connection, or an answer that never ends. The
   * `finish_reason` goes out before it only when `finish` is given.
   */
  readonly then?: { readonly error: unknown } | 'cut' | Endless
}

/** How an answer can go on for ever: with nothing, comments, empty deltas, or words. */
export type Endless = 'silence' | 'comments' | 'empty deltas' | 'words'

/** A running fake provider. */
export interface FakeOpenAi {
  /** What goes into OPENAI_BASE_URL. */
  readonly url: string
  readonly port: number
  readonly requests: readonly FakeRequest[]
  /** Connections that were opened since the start. */
  readonly connections: number
  close(): Promise<void>
}

/**
 * An OpenAI-compatible provider on a loopback port. It gives the answers of a script in their order,
 * or what a function of the request says. The fake behaves as badly as a test tells it to.
 */
export async function fakeOpenAi(
  script:
    | readonly FakeAnswer[]
    | ((request: FakeRequest, nth: number) => FakeAnswer | Promise<FakeAnswer>),
): Promise<FakeOpenAi> {
  const requests: FakeRequest[] = []
  let connections = 0

  async function answerTo(request: FakeRequest): Promise<FakeAnswer> {
    const nth = requests.push(request) - 1
    if (typeof script === 'function') return await script(request, nth)
    const over = `The script has ${script.length} answers and this is request ${nth + 1}.`
    return script[nth] ?? { status: 400, body: { error: { message: over } } }
  }

  const server = createServer(async (request, response) => {
    const leaving = new AbortController()
    response.once('close', () => {
      if (!response.writableFinished) leaving.abort()
    })
    try {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      const text = Buffer.concat(parts).toString()
      const answer = await answerTo({
        path: request.url ?? '',
        headers: request.headers,
        text,
        body: JSON.parse(text),
        gone: leaving.signal,
      })
      await give(typeof answer === 'string' ? { text: answer } : answer, response, leaving.signal)
    } catch (error) {
      if (leaving.signal.aborted) return
      response.destroy(error as Error)
    }
  })
  server.on('connection', () => connections++)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    requests,
    get connections() {
      return connections
    },
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

async function give(speech: FakeSpeech, response: ServerResponse, gone: AbortSignal) {
  if (speech.delayMs) await pause(speech.delayMs, undefined, { signal: gone })
  if (speech.status) {
    const body = speech.body ?? { error: { message: `status ${speech.status}` } }
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const type = text.startsWith('<') ? 'text/html' : 'application/json'
    response.writeHead(speech.status, { 'content-type': type, ...speech.headers }).end(text)
    return
  }
  if (speech.json) {
    response.writeHead(200, { 'content-type': 'application/json' }).end(whole(speech))
    return
  }

  const end = speech.lineEnd ?? '\n'
  const write = async (text: string) => {
    const bytes = Buffer.from(text)
    const step = speech.bytesPerWrite ?? bytes.length
    for (let from = 0; from < bytes.length; from += step) {
      const flushed = response.write(bytes.subarray(from, from + step))
      // One write, one packet: the next write waits until this one has left.
      if (speech.bytesPerWrite) await nextTick(undefined, { signal: gone })
      else if (!flushed) await drained(response, gone)
    }
  }
  const send = (data: unknown) =>
    write(`${speech.comments ? `: still here${end}` : ''}data: ${JSON.stringify(data)}${end}${end}`)

  response.writeHead(200, { 'content-type': 'text/event-stream', ...speech.headers })
  response.flushHeaders()
  for (const chunk of chunks(speech)) {
    await send(chunk)
    if (speech.paceMs) await pause(speech.paceMs, undefined, { signal: gone })
  }
  if (speech.then === 'cut') {
    // What was written leaves first, or the cut would lose it.
    await new Promise((resolve) => response.write(`:${end}`, resolve))
    return void response.destroy()
  }
  if (typeof speech.then === 'string') return await forEver(speech.then, speech, write, send, gone)
  if (speech.then) {
    await send(speech.then)
    return void response.end()
  }
  response.end(speech.done === false ? '' : `data: [DONE]${end}${end}`)
}

async function forEver(
  what: Endless,
  speech: FakeSpeech,
  write: (text: string) => Promise<void>,
  send: (data: unknown) => Promise<void>,
  gone: AbortSignal,
) {
  while (!gone.aborted) {
    await pause(speech.paceMs ?? 1, undefined, { signal: gone })
    if (what === 'comments') await write(': still here\n\n')
    if (what === 'empty deltas') await send(chunk(speech, { content: '' }))
    if (what === 'words') await send(chunk(speech, { content: 'again '.repeat(100) }))
  }
}

function* chunks(speech: FakeSpeech) {
  yield chunk(speech, { role: 'assistant', content: '' })
  for (const word of words(speech.reasoning ?? ''))
    yield chunk(speech, { [speech.reasoningField ?? 'reasoning_content']: word })
  const text = speech.text ?? ''
  for (const word of typeof text === 'string' ? words(text) : text)
    yield chunk(speech, { content: word })
  for (const [nth, call] of (speech.toolCalls ?? []).entries()) {
    const index = call.index === null ? undefined : (call.index ?? nth)
    const id = call.id === null ? undefined : (call.id ?? `call_${nth}`)
    const args = typeof call.args === 'string' ? call.args : JSON.stringify(call.args ?? {})
    const piece = (rest: object) => chunk(speech, { tool_calls: [{ index, ...rest }] })
    yield piece({ id, type: 'function', function: { name: call.name, arguments: '' } })
    const step = speech.argsPerChunk ?? 8
    for (let from = 0; from < args.length; from += step)
      yield piece({ function: { arguments: args.slice(from, from + step) } })
  }
  if (speech.then && !speech.finish) return
  if (speech.finish !== false) yield chunk(speech, {}, finishOf(speech))
  if (speech.usage) yield { ...chunk(speech, {}), choices: [], usage: speech.usage }
}

function chunk(speech: FakeSpeech, delta: object, finish: string | null = null) {
  return {
    id: speech.id ?? 'chatcmpl-fake',
    object: 'chat.completion.chunk',
    created: 0,
    model: 'fake',
    choices: [{ index: 0, delta, finish_reason: finish }],
  }
}

function whole(speech: FakeSpeech): string {
  const tool_calls = speech.toolCalls?.map(({ name, args, id }, nth) => ({
    id: id ?? `call_${nth}`,
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}) },
  }))
  const content = Array.isArray(speech.text) ? speech.text.join('') : (speech.text ?? null)
  const message = { role: 'assistant', content, tool_calls }
  return JSON.stringify({
    id: speech.id ?? 'chatcmpl-fake',
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finishOf(speech) }],
    usage: speech.usage,
  })
}

function finishOf({ finish, toolCalls }: FakeSpeech): string {
  return finish || (toolCalls?.length ? 'tool_calls' : 'stop')
}

function words(text: string): string[] {
  return text.match(/\s*\S+|\s+$/g) ?? []
}

function drained(response: ServerResponse, gone: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    response.once('drain', resolve)
    gone.addEventListener('abort', () => reject(gone.reason), { once: true })
  })
}
