import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGzip, gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Assembly, type Model } from '#core/models'
import { MessagesModel } from '../../plugins/models-anthropic/model.ts'
import { GenerateModel } from '../../plugins/models-google/model.ts'
import { OllamaModel } from '../../plugins/models-ollama/model.ts'
import { ChatModel } from '../../plugins/models-openai/chat/model.ts'
import { compatible } from '../../plugins/models-openai/compatible.ts'
import { openResponses } from '../../plugins/models-openai/responses/open.ts'
import { openModel } from '../../plugins/models-ai-sdk/open.ts'
import { ask } from '../support/model-request.ts'

const megabyte = 1024 * 1024
/** How many characters an answer of these models may have, and how many a server may send for them. */
const maxAnswer = 100_000
const mostSent = 1_700_000

interface Hostile {
  /** How the model is opened. */
  open(baseUrl: string): Model
  /** One more piece of an answer that never ends, with these words. */
  more(words: string): object
  /** One more call of a tool, without arguments. */
  call(nth: number): object
  /** A piece that says nothing. */
  nothing(nth: number): object
  /** A whole answer of one word with these counts. */
  counted(input: unknown, output: unknown): readonly object[]
  /** A piece with data that the provider wants back, of so many characters. */
  kept?(length: number): readonly object[]
  readonly isLines?: true
}

const at = { id: 'maker/fake', name: 'fake', apiKey: 'sk-known-1', maxAnswer }

const chatChunk = (delta: object, more: object = {}) => ({
  choices: [{ index: 0, delta, ...more }],
})
const part = (...parts: object[]) => ({ candidates: [{ index: 0, content: { parts } }] })

const wires: Readonly<Record<string, Hostile>> = {
  Messages: {
    open: (baseUrl) => new MessagesModel({ ...at, baseUrl }),
    more: (text) => ({
      ...{ type: 'content_block_start', index: 0 },
      content_block: { type: 'text', text },
    }),
    call: (index) => ({
      ...{ type: 'content_block_start', index },
      content_block: { type: 'tool_use', id: `c${index}`, name: 'x', input: {} },
    }),
    nothing: (index) => ({
      ...{ type: 'content_block_start', index },
      content_block: { type: 'text', text: '' },
    }),
    counted: (input_tokens, output_tokens) => [
      { type: 'message_start', message: { usage: { input_tokens, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Hi' } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens } },
      { type: 'message_stop' },
    ],
    kept: (length) => [
      {
        ...{ type: 'content_block_start', index: 0 },
        content_block: { type: 'redacted_thinking', data: 'x'.repeat(length) },
      },
    ],
  },
  Responses: {
    open: (baseUrl) => openResponses({ ...at, baseUrl, row: compatible.openai! }),
    more: (delta) => ({ type: 'response.output_text.delta', output_index: 0, delta }),
    call: (nth) => ({
      ...{ type: 'response.output_item.added', output_index: nth },
      item: { type: 'function_call', call_id: `c${nth}`, name: 'x' },
    }),
    nothing: (output_index) => ({ type: 'response.output_text.delta', output_index, delta: '' }),
    counted: (input_tokens, output_tokens) => [
      { type: 'response.output_text.delta', output_index: 0, delta: 'Hi' },
      { type: 'response.completed', response: { usage: { input_tokens, output_tokens } } },
    ],
    kept: (length) => [
      {
        ...{ type: 'response.output_item.done', output_index: 0 },
        item: { type: 'reasoning', summary: [], encrypted_content: 'x'.repeat(length) },
      },
    ],
  },
  generateContent: {
    open: (baseUrl) => new GenerateModel({ ...at, baseUrl }),
    more: (text) => part({ text }),
    call: () => part({ functionCall: { name: 'x' } }),
    nothing: () => part({ text: '' }),
    counted: (promptTokenCount, candidatesTokenCount) => [
      {
        candidates: [{ index: 0, content: { parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount, candidatesTokenCount },
      },
    ],
    kept: (length) => [part({ text: 'a', thoughtSignature: 'x'.repeat(length) })],
  },
  'chat completions': {
    open: (baseUrl) => new ChatModel({ ...at, baseUrl, row: compatible.openrouter! }),
    more: (content) => chatChunk({ content }),
    call: (index) =>
      chatChunk({ tool_calls: [{ index, id: `c${index}`, function: { name: 'x' } }] }),
    nothing: () => chatChunk({ content: '' }),
    counted: (prompt_tokens, completion_tokens) => [
      chatChunk({ content: 'Hi' }, { finish_reason: 'stop' }),
      { choices: [], usage: { prompt_tokens, completion_tokens } },
    ],
    kept: (length) => [
      chatChunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'x'.repeat(length) }] }),
    ],
  },
  Ollama: {
    open: (host) => new OllamaModel({ id: at.id, name: at.name, host, maxAnswer }, {}),
    more: (content) => ({ message: { role: 'assistant', content } }),
    call: () => ({ message: { tool_calls: [{ function: { name: 'x', arguments: {} } }] } }),
    nothing: () => ({ message: { role: 'assistant', content: '' } }),
    counted: (prompt_eval_count, eval_count) => [
      { message: { content: 'Hi' }, done: true, prompt_eval_count, eval_count },
    ],
    isLines: true,
  },
}

/** A server that answers every question by this hand; nobody asks an Ollama of a test what a model can. */
async function served(answer: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    if (request.url?.endsWith('/api/show')) return void response.end('{}')
    response.on('error', () => undefined)
    answer(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Writes for as long as somebody reads, and counts the bytes. */
function endless(next: (nth: number) => string): {
  readonly sent: { bytes: number }
  answer(response: ServerResponse): void
} {
  const sent = { bytes: 0 }
  return {
    sent,
    answer(response) {
      let nth = 0
      const go = () => {
        while (!response.destroyed) {
          const text = next(nth++)
          sent.bytes += text.length
          if (!response.write(text)) return
        }
      }
      response.on('drain', go)
      go()
    },
  }
}

const frameOf = ({ isLines }: Hostile, data: object) =>
  isLines ? `${JSON.stringify(data)}\n` : `data: ${JSON.stringify(data)}\n\n`

/** The whole reply, once with each way of asking, as a turn gathers it. */
async function replyOf(model: Model) {
  const gathered = new Assembly()
  const asked = { ...ask('Hello'), attempts: 1 }
  await model.streamTo?.(asked, (delta) => gathered.add(delta))
  return gathered.reply()
}

const tooLong = { code: 'MODEL_ANSWER_TOO_LONG' }

describe.each(Object.entries(wires))('a provider behind %s that', (_, wire) => {
  it.each<[string, (nth: number) => string]>([
    ['never stops talking', () => frameOf(wire, wire.more('word '))],
    ['never stops calling tools', (nth) => frameOf(wire, wire.call(nth))],
    ['never says a word', (nth) => frameOf(wire, wire.nothing(nth))],
    ['begins a frame and never ends it', (nth) => (nth ? 'x'.repeat(65_536) : 'data: {"a":"')],
    ['sends nothing but empty lines', () => '\n'.repeat(65_536)],
    ['sends nothing but comments', () => `: ${'x'.repeat(65_536)}\n`],
  ])('%s is left, and what it sends is not kept', async (_, next) => {
    const { sent, answer } = endless(next)
    const url = await served(answer)
    const fault: unknown = await replyOf(wire.open(url)).catch((error: unknown) => error)
    expect(fault).toMatchObject({
      code: expect.stringMatching(/^MODEL_(ANSWER_TOO_LONG|STREAM_BROKEN)$/),
    })
    // What was under way when the connection was dropped counts as well.
    expect(sent.bytes).toBeLessThan(mostSent + 16 * megabyte)
  })

  it.each([
    [-5, -1],
    ['12', null],
    [1e999, Number.NaN],
    [{}, []],
  ])('counts %j and %j tokens is believed in neither', async (input, output) => {
    const body = wire.counted(input, output).map((frame) => frameOf(wire, frame))
    const url = await served((response) => response.end(body.join('')))
    const { content, usage } = await replyOf(wire.open(url))
    expect(content).toBe('Hi')
    for (const count of Object.values(usage ?? {})) expect(count).toBeGreaterThanOrEqual(0)
    for (const count of Object.values(usage ?? {})) expect(Number.isSafeInteger(count)).toBe(true)
  })

  const { kept } = wire
  if (kept)
    it('wants 5 MB of its own data back is refused', async () => {
      const body = kept(5 * megabyte).map((frame) => frameOf(wire, frame))
      const url = await served((response) => response.end(body.join('')))
      await expect(replyOf(wire.open(url))).rejects.toMatchObject(tooLong)
    })

  it('packs a bomb is not unpacked', async () => {
    const bomb = gzipSync(frameOf(wire, wire.more('x'.repeat(64 * megabyte))))
    const url = await served((response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb)
    })
    const fault: unknown = await replyOf(wire.open(url)).catch((error: unknown) => error)
    expect(fault).toMatchObject({ code: expect.stringMatching(/^MODEL_/) })
  })
})

describe('a provider behind a package of the AI SDK that', () => {
  const opened = (baseUrl: string) =>
    openModel('anthropic/fake', { settings: { baseUrl, attempts: 1 }, key: 'sk-known-1' })
  const heard = async (model: Model) => {
    for await (const _ of model.stream(ask('Hello')));
  }

  it('packs a bomb without end is read no further than an answer may be long', async () => {
    const url = await served((response) => {
      const head = { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }
      response.writeHead(200, head)
      const packed = createGzip({ level: 1 })
      const piece = Buffer.alloc(megabyte, 0x78)
      const go = () => {
        while (!response.destroyed && packed.write(piece));
      }
      packed.on('drain', go).pipe(response)
      response.on('close', () => packed.destroy())
      go()
    })
    await expect(heard(await opened(url))).rejects.toMatchObject({
      code: expect.stringMatching(/^MODEL_/),
    })
  })
})
