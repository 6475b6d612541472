import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { definePlugin, type Delta, type ModelRequest } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import a2a from '../plugins/a2a/index.ts'
import agUi from '../plugins/ag-ui/index.ts'
import aiSdk from '../plugins/ai-sdk/index.ts'
import mcpServers from '../plugins/mcp/index.ts'
import openaiApi from '../plugins/openai-api/index.ts'
import { median } from './support/target.ts'

// Measures what a turn, a streamed token and a call of a tool cost through each door of another protocol: the CPU time of a server
// in a process of its own, beside the same turn by the native route, in alternating rounds.
const rounds = 9
const mostRatio = 1.3
const mostCallMs = 2
const mostStopMs = 100
const pieces = 300
const tools = 500

const shed = definePlugin({
  name: 'shed',
  summary: 'Has many tools.',
  visibility: 'on-demand',
  tools: Object.fromEntries(
    Array.from({ length: tools }, (_, n) => [
      `tool_${n}`,
      {
        description: 'Does something, with an argument that takes some words to describe.',
        effect: 'read' as const,
        input: z.object({ subject: z.string().describe('What it is done to, in some words.') }),
        run: ({ subject }: { subject: string }) => `done to ${subject}`,
      },
    ]),
  ),
})

/** Answers with one piece, with many that come one after the other, or with one and no end, until it is stopped. */
async function* answer({ messages, signal }: ModelRequest): AsyncGenerator<Delta> {
  const asked = JSON.stringify(messages.at(-1))
  if (asked.includes('endless')) {
    signal.addEventListener('abort', () => process.send?.({ stoppedAt: timeNow() }))
    yield { type: 'text', text: 'And on' }
    await sleep(60_000, undefined, { signal })
  }
  const isLong = asked.includes('long')
  if (!isLong) {
    yield { type: 'text', text: 'Done.' }
    return
  }
  for (let n = 0; n < pieces; n++) {
    yield { type: 'text', text: ` word${n}` }
    await sleep(1)
  }
}

/** The time by a clock that the processes of this machine share. */
const timeNow = () => performance.timeOrigin + performance.now()

async function serve(): Promise<void> {
  const many = '1000000'
  const app = await testApp({
    plugins: [a2a, agUi, aiSdk, mcpServers, openaiApi, shed],
    model: { ...scriptedModel([]), stream: answer },
    env: {
      ORACLE_MNEMONIC: 'words of the bench of doors',
      ...{ RATE_LIMIT_PER_MINUTE: many, CALLS_PER_MINUTE: many },
      ...{ TURNS_PER_DAY: many, TURNS_AT_ONCE: many, TURNS_AT_ONCE_TOTAL: many },
    },
  })
  const user = await app.user()
  const can = ['oracle/call', 'tools/call']
  const { body } = await user.post('/keys', { name: 'bench', can })
  process.on('message', () => {
    globalThis.gc?.()
    const { user: inCode, system } = process.cpuUsage()
    process.send?.((inCode + system) / 1000)
  })
  process.on('disconnect', () => process.exit())
  process.send?.({ url: app.url, key: body.key })
}

interface Asked {
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body: object
}

const native = (message: string, id: string): Asked => ({
  path: `/messages/${id}`,
  body: { message },
})

/** The same words through each door, in a session that is there; `openai-api` makes its own, by the header. */
const doors: Readonly<Record<string, (message: string, id: string) => Asked>> = {
  'openai-api': (content, id) => ({
    path: '/openai/v1/chat/completions',
    headers: { 'x-session-id': id },
    body: { model: 'oracle', stream: true, messages: [{ role: 'user', content }] },
  }),
  'ai-sdk': (text, id) => ({
    path: '/ai-sdk/chat',
    body: { id, messages: [{ id, role: 'user', parts: [{ type: 'text', text }] }] },
  }),
  'ag-ui': (content, id) => ({
    path: '/ag-ui',
    body: { threadId: id, runId: id, messages: [{ id, role: 'user', content }] },
  }),
  a2a: (text, id) => ({
    path: '/a2a',
    headers: { 'a2a-version': '1.0' },
    body: {
      ...{ jsonrpc: '2.0', id: 1, method: 'SendStreamingMessage' },
      params: {
        message: { messageId: id, contextId: id, role: 'ROLE_USER', parts: [{ text }] },
      },
    },
  }),
}

const toolCall = (_: string, id: string): Asked => ({
  path: '/mcp',
  headers: {
    accept: 'application/json, text/event-stream',
    ...{ 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'tool_400' },
  },
  body: {
    ...{ jsonrpc: '2.0', id, method: 'tools/call' },
    params: {
      ...{ name: 'tool_400', arguments: { subject: 'a thing' } },
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  },
})

class Served {
  readonly #child: ChildProcess
  readonly #url: string
  readonly #key: string

  constructor(child: ChildProcess, { url, key }: { url: string; key: string }) {
    this.#child = child
    this.#url = url
    this.#key = key
  }

  /** The CPU time in milliseconds that one of some requests costs, one after the other. */
  async cost(asked: (message: string, id: string) => Asked, message: string, times: number) {
    const sessions: string[] = []
    for (let n = 0; n < times; n++) sessions.push(await this.#session())
    const before = await this.#cpu()
    for (const id of sessions) await this.#ask(asked(message, id))
    return ((await this.#cpu()) - before) / times
  }

  /** How long after the client has left the model's signal fires, in milliseconds. */
  async stop(asked: (message: string, id: string) => Asked): Promise<number> {
    const leaving = new AbortController()
    const response = await this.#send(asked('endless', await this.#session()), leaving.signal)
    const reader = response.body?.getReader()
    let text = ''
    while (!text.includes('And')) {
      const read = await reader?.read()
      if (!read || read.done) throw new Error(`The answer ended: ${text.slice(0, 500)}`)
      text += Buffer.from(read.value).toString()
    }
    const stopped = once(this.#child, 'message')
    const left = timeNow()
    leaving.abort()
    const [{ stoppedAt }] = (await stopped) as [{ stoppedAt: number }]
    return stoppedAt - left
  }

  async #session(): Promise<string> {
    const response = await fetch(`${this.#url}/sessions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#key}` },
    })
    return z.object({ sessionId: z.string() }).parse(await response.json()).sessionId
  }

  async #ask(asked: Asked): Promise<void> {
    const response = await this.#send(asked)
    const text = await response.text()
    const isGood = response.ok && !text.includes('"isError":true') && !text.includes('RUN_ERROR')
    if (!isGood) throw new Error(`${asked.path}: ${response.status} ${text.slice(0, 500)}`)
  }

  #send({ path, headers, body }: Asked, signal?: AbortSignal): Promise<Response> {
    return fetch(this.#url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.#key}`,
        'content-type': 'application/json',
        ...headers,
      },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    })
  }

  async #cpu(): Promise<number> {
    this.#child.send('cpu')
    const [cpu] = (await once(this.#child, 'message')) as [number]
    return cpu
  }
}

async function measure(): Promise<void> {
  const child = fork(import.meta.filename, ['serve'], {
    execArgv: [...process.execArgv, '--expose-gc'],
  })
  const [ready] = (await once(child, 'message')) as [{ url: string; key: string }]
  const served = new Served(child, ready)
  let isOver = false
  const ways = [native, ...Object.values(doors)]
  for (const way of ways) await served.cost(way, 'short', 60)
  for (const [what, message, times] of [
    ['a turn', 'short', 20],
    [`a turn of ${pieces} tokens`, 'long', 2],
  ] as const) {
    const costs = ways.map((): number[] => [])
    for (let round = 0; round < rounds; round++)
      for (const [nth, way] of ways.entries())
        costs[nth]?.push(await served.cost(way, message, times))
    const [base = []] = costs
    console.log(`${what}: ${median(base).toFixed(2)} ms of CPU by the native route`)
    for (const [nth, name] of Object.keys(doors).entries()) {
      const ratio = median((costs[nth + 1] ?? []).map((cost, at) => cost / (base[at] ?? 1)))
      isOver ||= ratio > mostRatio
      console.log(`  ${name}: ${ratio.toFixed(2)} of it (goal: at most ${mostRatio})`)
    }
  }
  await served.cost(toolCall, '', 200)
  const calls: number[] = []
  for (let round = 0; round < rounds; round++) calls.push(await served.cost(toolCall, '', 100))
  isOver ||= median(calls) > mostCallMs
  console.log(
    `a call of a tool by /mcp, of ${tools} tools: ${median(calls).toFixed(2)} ms of CPU (goal: at most ${mostCallMs})`,
  )
  const stops: number[] = []
  const openai = doors['openai-api']!
  for (let round = 0; round < rounds; round++) stops.push(await served.stop(openai))
  isOver ||= Math.max(...stops) > mostStopMs
  console.log(
    `from a client of the OpenAI API that leaves to the model's signal: ${median(stops).toFixed(1)} ms, ` +
      `at most ${Math.max(...stops).toFixed(1)} (goal: at most ${mostStopMs})`,
  )
  child.disconnect()
  if (isOver && process.env.BENCH_GATE) process.exitCode = 1
}

await (process.argv[2] === 'serve' ? serve() : measure())
