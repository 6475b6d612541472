import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  askProvider,
  Assembly,
  endpoint,
  modelTransport,
  type FrameReader,
  type TransportOptions,
} from '#core/models'
import type { Delta } from '../../core/plugin.ts'
import { ask } from '../support/model-request.ts'

type Handler = (body: any, response: ServerResponse, request: IncomingMessage) => void

/** A server that answers each request with the next handler, and with the last one from then on. */
async function provider(...handlers: Handler[]) {
  const bodies: any[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const piece of request) text += piece
    const body = text ? JSON.parse(text) : undefined
    bodies.push(body)
    const handler = handlers[Math.min(bodies.length, handlers.length) - 1]
    handler?.(body, response, request)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: new URL(`http://127.0.0.1:${port}/say`), bodies }
}

interface Frame {
  readonly say?: string
  readonly think?: string
  readonly keep?: string
  readonly end?: true
}

/** A wire of one word a frame: the least that an author of a provider writes. */
function words(): FrameReader & { events: (string | undefined)[] } {
  let kept = ''
  return {
    finished: false,
    done: false,
    events: [],
    get kept() {
      return kept.length
    },
    take(frame: Frame, onto: Delta[], event?: string) {
      this.events.push(event)
      if (frame.think) onto.push({ type: 'reasoning', text: frame.think })
      if (frame.say) onto.push({ type: 'text', text: frame.say })
      kept += frame.keep ?? ''
      if (frame.end) Object.assign(this, { finished: true, done: true })
    },
    last: () => [
      { type: 'usage', inputTokens: 3, outputTokens: 2, cachedTokens: 1 },
      ...(kept ? [{ type: 'provider', data: { kept } } as const] : []),
    ],
  }
}

function transport(url: URL, options: Partial<TransportOptions> = {}) {
  return modelTransport({
    model: 'm',
    url,
    secret: 'sk-secret-1',
    headers: { 'x-key': 'sk-secret-1' },
    settings: { key: 'TEST_KEY', address: 'TEST_URL' },
    wire: { body: ({ messages }) => JSON.stringify({ messages }), reader: words },
    ...options,
  })
}

const events = (...frames: Frame[]): Handler => {
  return (_, response) =>
    response.end(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join(''))
}

async function reply(stream: AsyncIterable<Delta>) {
  const gathered = new Assembly()
  for await (const delta of stream) gathered.add(delta)
  return gathered.reply()
}

describe('a wire on the transport', () => {
  it('reads server-sent events with their names, and gives its last deltas once', async () => {
    const reader = words()
    const { url } = await provider((_, response) =>
      response.end('event: word\ndata: {"say":"Hi","keep":"s1"}\n\ndata: {"end":true}\n\n'),
    )
    const wire = { body: () => '{}', reader: () => reader }
    expect(await reply(transport(url, { wire }).stream(ask('Hello')))).toEqual({
      content: 'Hi',
      toolCalls: [],
      usage: { inputTokens: 3, outputTokens: 2, cachedTokens: 1 },
      provider: { kept: 's1' },
    })
    expect(reader.events).toEqual(['word', undefined])
  })

  it('reads lines of JSON, however they are cut', async () => {
    const { url } = await provider((_, response) => {
      response.write('{"say":"one "}\n{"say"')
      setImmediate(() => response.end(':"two"}\n\n{"end":true}'))
    })
    const lines = transport(url, { framing: 'lines' })
    expect((await reply(lines.stream(ask('Hello')))).content).toBe('one two')
  })

  it('sends headers of one request, and bodies that take a moment', async () => {
    const seen: unknown[] = []
    const { url } = await provider((_, response, { headers }) => {
      seen.push(headers['x-key'], headers['x-once'])
      response.end('data: {"say":"Hi","end":true}\n\n')
    })
    const wire = {
      body: async () => ({ body: '{}', headers: { 'x-once': 'yes' } }),
      reader: words,
    }
    await reply(transport(url, { wire }).stream(ask('Hello')))
    expect(seen).toEqual(['sk-secret-1', 'yes'])
  })

  it('changes what a server refuses by name, asks again, and remembers that for the model', async () => {
    const refuses = (field: string): Handler => {
      return (_, response) =>
        response.writeHead(400).end(JSON.stringify({ error: { message: `no ${field} here` } }))
    }
    const { url, bodies } = await provider(
      refuses('warmth'),
      refuses('length 9'),
      events({ say: 'Hi', end: true }),
    )
    const asked = transport(url, {
      wire: {
        body: (_, changes) => JSON.stringify(Object.fromEntries(changes)),
        reader: words,
        change: ({ text }) => {
          const [, length] = /length (\d+)/.exec(text) ?? []
          if (length) return ['length', Number(length)]
          return text.includes('warmth') ? ['warmth', false] : undefined
        },
      },
    })
    await reply(asked.stream(ask('Hello')))
    await reply(asked.stream(ask('Again')))
    const learned = { warmth: false, length: 9 }
    expect(bodies).toEqual([{}, { warmth: false }, learned, learned])
  })

  it('lets a refusal stand that a change did not help', async () => {
    const { url, bodies } = await provider((_, response) =>
      response.writeHead(400).end('{"error":{"message":"no warmth"}}'),
    )
    const wire = {
      body: () => '{}',
      reader: words,
      change: () => ['warmth', false] as const,
    }
    await expect(reply(transport(url, { wire }).stream(ask('Hello')))).rejects.toMatchObject({
      code: 'MODEL_BAD_REQUEST',
    })
    expect(bodies).toHaveLength(2)
  })

  it('asks again when a thought breaks off, and never after a word', async () => {
    const breaks = (frame: Frame): Handler => {
      return (_, response) => {
        response.write(`data: ${JSON.stringify(frame)}\n\n`)
        setTimeout(() => response.destroy(), 10)
      }
    }
    const thinking = await provider(breaks({ think: 'Hm.' }), events({ say: 'Hi', end: true }))
    const attempts: number[] = []
    const request = { ...ask('Hello'), onRetry: (attempt: number) => attempts.push(attempt) }
    expect((await reply(transport(thinking.url).stream(request))).content).toBe('Hi')
    expect(attempts).toEqual([2])
    const speaking = await provider(breaks({ say: 'Hi' }), events({ say: 'Hi', end: true }))
    await expect(reply(transport(speaking.url).stream(ask('Hello')))).rejects.toMatchObject({
      code: 'MODEL_STREAM_BROKEN',
    })
    expect(speaking.bodies).toHaveLength(1)
  })

  it('tries as often as the caller asks for, unless the model is set otherwise', async () => {
    const busy: Handler = (_, response) =>
      response.writeHead(503, { 'retry-after-ms': '1' }).end('{}')
    for (const [set, asked, made] of [
      [undefined, 2, 2],
      [3, 2, 3],
      [undefined, undefined, 4],
    ] as const) {
      const { url, bodies } = await provider(busy)
      const small = transport(url, { attempts: set })
      const request = { ...ask('Hello'), attempts: asked }
      await expect(reply(small.stream(request))).rejects.toMatchObject({ code: 'MODEL_OVERLOADED' })
      expect(bodies).toHaveLength(made)
    }
  })

  it('refuses more of a provider’s own data than may be kept', async () => {
    const keep = 'x'.repeat(256 * 1024)
    const frames = Array.from({ length: 20 }, () => ({ keep }))
    const { url } = await provider(events(...frames, { say: 'Hi', end: true }))
    await expect(reply(transport(url).stream(ask('Hello')))).rejects.toMatchObject({
      code: 'MODEL_ANSWER_TOO_LONG',
    })
    const gathered = new Assembly()
    expect(() => gathered.add({ type: 'provider', data: 'x'.repeat(1024 * 1024) })).toThrow(
      'more than 1048576 bytes of its own data',
    )
  })

  it('finds a fault in any frame that has one', async () => {
    const { url } = await provider((_, response) =>
      response.end('event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'),
    )
    await expect(reply(transport(url, { attempts: 1 }).stream(ask('Hello')))).rejects.toMatchObject(
      { code: 'MODEL_OVERLOADED' },
    )
  })
})

describe('a question to a provider', () => {
  const asked = {
    model: 'm',
    secret: 'sk-secret-1',
    settings: { key: 'TEST_KEY', address: 'TEST_URL' },
  }
  const { signal } = new AbortController()

  it('is read or posted, and asked again when the fault may pass', async () => {
    const { url, bodies } = await provider(
      (_, response) => response.writeHead(503, { 'retry-after-ms': '1' }).end('{}'),
      (body, response, { method }) => response.end(JSON.stringify({ method, body })),
    )
    expect(await askProvider({ url, asked, signal })).toEqual({ method: 'GET' })
    expect(await askProvider({ url, asked, signal, body: '{"a":1}' })).toEqual({
      method: 'POST',
      body: { a: 1 },
    })
    expect(bodies).toHaveLength(3)
  })

  it('fails with the codes of a model’s call', async () => {
    const { url } = await provider(
      (_, response) => response.writeHead(401).end('{"error":{"message":"bad sk-secret-1"}}'),
      (_, response) => response.end('<html>'),
    )
    await expect(askProvider({ url, asked, signal })).rejects.toMatchObject({
      code: 'MODEL_UNAUTHORIZED',
    })
    await expect(askProvider({ url, asked, signal })).rejects.toMatchObject({
      code: 'MODEL_ANSWER_INVALID',
    })
  })
})

describe('a base address', () => {
  const options = { setting: 'TEST_URL', key: 'TEST_KEY', version: '/v1', path: '/say' }
  it.each([
    ['https://api.example', 'https://api.example/v1/say'],
    ['https://api.example/', 'https://api.example/v1/say'],
    ['https://api.example/v1', 'https://api.example/v1/say'],
    ['https://api.example/v1beta/', 'https://api.example/v1beta/say'],
    ['https://api.example/v1/say', 'https://api.example/v1/say'],
    ['https://api.example/proxy/v1?tenant=a', 'https://api.example/proxy/v1/say?tenant=a'],
  ])('%s leads to %s', (base, url) => {
    expect(endpoint(base, options).href).toBe(url)
  })

  it('that is none names its setting and not what it says', () => {
    for (const base of ['sk-secret', 'ftp://a.example', 'https://user:pw@a.example'])
      expect(() => endpoint(base, options)).toThrow('TEST_URL is not an http or https address.')
  })
})
