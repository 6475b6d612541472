/**
 * What a turn costs: CPU of a turn with three tool calls (four model calls, twenty words), against a
 * hand-written loop on node:http that keeps nothing, both against one OpenAI-compatible endpoint in a
 * process of its own. Ours writes its checkpoints to a SQLite file that is synced at every commit; the journal
 * of its runs is kept in memory here, so that this is the engine alone. Then the same turn as a session grows.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import http, { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { definePlugin } from '#core'
import type { Message } from '../core/plugin.ts'
import { Agent } from '../core/runtime/agent/agent.ts'
import { boot } from '../core/runtime/app.ts'
import { checkpointMigrations } from '../core/runtime/agent/checkpoint-tables.ts'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import { openAiModel } from '../core/runtime/model/openai.ts'
import { createRoomState, roomStateMigration } from '../core/runtime/room-state.ts'
import type { JournalEntry, RunHandle } from '../core/runtime/runs/run.ts'
import { openStore } from '../core/runtime/store/store.ts'

const rounds = 10
const perRound = 100
const warmUp = 500
const sessionLength = 120

const description = 'Weather in a city.'
const question = 'What is the weather?'
const reading = () => ({ city: 'Lusaka', temp_c: 21 })

type Turn = (session: string) => Promise<void>

// ── The endpoint: three tool calls, one after the other, then twenty words ────────────────────

function serveEndpoint(): void {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 0, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
  const call = (piece: object) => chunk({ tool_calls: [{ index: 0, ...piece }] })
  const start = { id: 'call_x', type: 'function', function: { name: 'get_weather', arguments: '' } }
  const args = ['{"ci', 'ty":', '"Lus', 'aka', '"}']
  const done = 'data: [DONE]\n\n'
  const opening = chunk({ role: 'assistant', content: '' })
  const toolAnswer = [
    opening,
    call(start),
    ...args.map((piece) => call({ function: { arguments: piece } })),
    chunk({}, 'tool_calls'),
    done,
  ]
  const words = Array.from({ length: 20 }, (_, i) => chunk({ content: ` word${i}` }))
  const textAnswer = [opening, ...words, chunk({}, 'stop'), done]

  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => (body += piece))
    request.on('end', () => {
      const { messages } = JSON.parse(body) as { messages: { role: string }[] }
      const asked = messages.findLastIndex(({ role }) => role === 'user')
      const results = messages.slice(asked).filter(({ role }) => role === 'tool').length
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const piece of results < 3 ? toolAnswer : textAnswer) response.write(piece)
      response.end()
    })
  })
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    process.send?.({ port })
  })
}

// ── The hand-written loop ─────────────────────────────────────────────────────────────────────

interface Said {
  role: string
  content: string
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[]
}

function handWritten(port: number): Turn {
  const agent = new http.Agent({ keepAlive: true })
  const parameters = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
  }
  const tools = [{ type: 'function', function: { name: 'get_weather', description, parameters } }]
  const sessions = new Map<string, object[]>()
  let heard = 0

  const ask = (messages: object[]) =>
    new Promise<Said>((resolve, reject) => {
      const body = JSON.stringify({ model: 'm', stream: true, messages, tools })
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      }
      const options = { host: '127.0.0.1', port, path: '/v1/chat/completions', method: 'POST' }
      const request = http.request({ ...options, agent, headers }, (response) => {
        let rest = ''
        let content = ''
        const calls: NonNullable<Said['tool_calls']> = []
        response.setEncoding('utf8').on('data', (piece: string) => {
          rest += piece
          for (let at; (at = rest.indexOf('\n\n')) >= 0; rest = rest.slice(at + 2)) {
            const line = rest.slice(6, at)
            if (line === '[DONE]') continue
            const { delta } = JSON.parse(line).choices[0]
            if (delta.content) {
              content += delta.content
              heard += delta.content.length
            }
            for (const { index, id, function: part } of delta.tool_calls ?? []) {
              const call = (calls[index] ??= {
                id: '',
                type: 'function',
                function: { name: '', arguments: '' },
              })
              if (id) call.id = id
              if (part.name) call.function.name = part.name
              call.function.arguments += part.arguments
            }
          }
        })
        response.on('end', () =>
          resolve({ role: 'assistant', content, ...(calls.length > 0 && { tool_calls: calls }) }),
        )
      })
      request.on('error', reject).end(body)
    })

  return async (session) => {
    let history = sessions.get(session)
    if (!history) sessions.set(session, (history = []))
    history.push({ role: 'user', content: question })
    for (;;) {
      const reply = await ask(history)
      history.push(reply)
      if (!reply.tool_calls) return
      for (const { id, function: call } of reply.tool_calls) {
        JSON.parse(call.arguments)
        history.push({ role: 'tool', tool_call_id: id, content: JSON.stringify(reading()) })
      }
    }
  }
}

// ── Ours ──────────────────────────────────────────────────────────────────────────────────────

const weather = definePlugin({
  name: 'sky',
  summary: 'Weather.',
  visibility: 'always',
  // Changed by every turn, so that every turn writes a checkpoint.
  state: { readings: z.number().default(0) },
  tools: {
    get_weather: {
      description,
      effect: 'read',
      input: z.object({ city: z.string() }),
      run(_, { state }) {
        state.readings++
        return reading()
      },
    },
  },
})

async function ours(port: number, folder: string): Promise<Turn> {
  const app = await boot({
    plugins: [weather],
    env: { DATA_DIR: ':memory:', LOG_LEVEL: 'error' },
    log: () => undefined,
  })
  const dataDir = await openDataDir(folder)
  const store = await openStore({ dataDir, log: app.log })
  await store.migrate('kernel', { ...checkpointMigrations, '002-room-state': roomStateMigration })
  const model = openAiModel({ name: 'm', baseUrl: `http://127.0.0.1:${port}` })
  const agent = new Agent({
    records: app.records,
    tools: app.tools,
    db: store.db,
    rooms: createRoomState({ db: store.db, log: app.log }),
    log: app.log,
    name: 'Oracle',
    model: () => model,
  })
  await agent.warm()

  interface Session {
    entries: JournalEntry[]
    history: Message[]
    checkpoint?: string
    previous?: string
  }
  const sessions = new Map<string, Session>()
  const user = { did: 'did:key:z6Mk', can: () => true, denial: () => [] }
  let runs = 0
  let heard = 0

  return async (sessionId) => {
    const runId = `run-${++runs}`
    let session = sessions.get(sessionId)
    if (!session) sessions.set(sessionId, (session = { entries: [], history: [] }))
    const { entries, history } = session
    const run: RunHandle = {
      runId,
      requestId: runId,
      sessionId,
      user,
      room: 'room',
      request: { message: question },
      takenOver: false,
      previous: session.previous,
      checkpoint: session.checkpoint,
      signal: new AbortController().signal,
      journal: {
        read: async () => entries,
        history: async () => history,
        append: async (entry) => void entries.push(entry),
      },
      effects: {
        begin: async () => ({ state: 'new' }),
        finish: async () => undefined,
      },
      emit: () => heard++,
      clientResult: () => Promise.reject(new Error('nobody is there')),
    }
    const end = await agent.run(run)
    if (end.status !== 'finished') throw new Error(JSON.stringify(end))
    session.checkpoint = end.checkpoint
    session.previous = runId
  }
}

// ── Measuring ─────────────────────────────────────────────────────────────────────────────────

interface Order {
  /** How many sessions, and how many turns of each. */
  readonly sessions: number
  readonly turns: number
  /** The same name later means the same sessions. */
  readonly name: string
}

async function obey(turn: Turn): Promise<void> {
  process.on('message', async ({ name, sessions, turns }: Order) => {
    globalThis.gc?.()
    const before = process.cpuUsage()
    for (let n = 0; n < turns; n++) for (let i = 0; i < sessions; i++) await turn(`${name}-${i}`)
    const { user, system } = process.cpuUsage(before)
    process.send?.({ ms: (user + system) / 1000 / turns / sessions })
  })
  process.send?.({ ready: true })
}

class Runner {
  readonly process: ChildProcess

  constructor(kind: string, port: number, folder: string) {
    this.process = fork(import.meta.filename, [kind, String(port), folder], {
      execArgv: process.execArgv,
    })
  }

  ready = () => once(this.process, 'message')

  async run(order: Order): Promise<number> {
    this.process.send(order)
    const [{ ms }] = (await once(this.process, 'message')) as [{ ms: number }]
    return ms
  }
}

const median = (numbers: readonly number[]) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-turns-'))
  const endpoint = fork(import.meta.filename, ['endpoint'], { execArgv: process.execArgv })
  const [{ port }] = (await once(endpoint, 'message')) as [{ port: number }]
  const loop = new Runner('loop', port, folder)
  await loop.ready()
  const engine = new Runner('engine', port, folder)
  await engine.ready()
  try {
    for (const runner of [loop, engine])
      await runner.run({ name: 'warm', sessions: warmUp, turns: 1 })
    const pairs: [number, number][] = []
    for (let round = 0; round < rounds; round++) {
      const order = { name: `round-${round}`, sessions: perRound, turns: 1 }
      pairs.push([await loop.run(order), await engine.run(order)])
    }
    const [bare, own] = [median(pairs.map(([a]) => a)), median(pairs.map(([, b]) => b))]
    const ratio = median(pairs.map(([a, b]) => b / a))
    console.log(
      `${rounds * perRound} turns with three tool calls, CPU of one: loop ${bare.toFixed(2)} ms, ours ${own.toFixed(2)} ms, ${ratio.toFixed(2)} times (goal 3, at most 4)`,
    )

    const lengths: string[] = []
    for (const [name, runner] of [
      ['loop', loop],
      ['ours', engine],
    ] as const) {
      const tenths: number[] = []
      for (let i = 0; i < sessionLength / 10; i++)
        tenths.push(await runner.run({ name: 'long', sessions: 10, turns: 10 }))
      const [first, last] = [tenths[0]!, tenths.at(-1)!]
      lengths.push(
        `${name} ${first.toFixed(2)} -> ${last.toFixed(2)} ms, ${(last / first).toFixed(2)} times`,
      )
    }
    console.log(
      `turns 1 to 10 against turns ${sessionLength - 9} to ${sessionLength} of a session: ${lengths.join('; ')} (ours at most 2)`,
    )
  } finally {
    for (const child of [loop.process, engine.process, endpoint]) child.disconnect()
    rmSync(folder, { recursive: true, force: true })
  }
}

process.once('disconnect', () => process.exit())
const [kind, port = '', folder = ''] = process.argv.slice(2)
if (kind === 'endpoint') serveEndpoint()
else if (kind === 'loop') await obey(handWritten(Number(port)))
else if (kind === 'engine') await obey(await ours(Number(port), folder))
else await measure()
