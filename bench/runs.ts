import { randomUUID } from 'node:crypto'
import {
  createServer,
  get,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Log, User } from '../core/plugin.ts'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import type { Engine } from '../core/runtime/turns/run.ts'
import { runMigrations } from '../core/runtime/turns/journal/tables.ts'
import { Runs } from '../core/runtime/turns/carry/runs.ts'
import { toFrame } from '../core/runtime/http/answer/sse.ts'
import { openStore } from '../core/runtime/store/store.ts'

/**
 * Measures the CPU time of a token from the engine's `emit` to the bytes on the wire and in the database, beside a
 * hand-written loop that writes the same frames and stores nothing. The clients run in another thread, whose time does
 * not count.
 */
const settings = { runs: Number(process.argv[2] ?? 100), tokens: 100, pauseMs: 100 }

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }
const user: User = { did: 'did:key:zBench', can: () => true, denial: () => [] }
const word = 'word '

async function paced(say: (i: number) => void): Promise<void> {
  const start = performance.now()
  for (let i = 0; i < settings.tokens; i++) {
    await sleep(Math.max(0, start + (i + 1) * settings.pauseMs - performance.now()))
    say(i)
  }
}

const engine: Engine = async (run) => {
  await paced(() => run.emit('message', { content: word }))
  const content = word.repeat(settings.tokens)
  await run.journal.append({ messages: [{ role: 'assistant', id: randomUUID(), content }] })
  return { status: 'finished' }
}

const sseHead = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache, no-transform' }

/** The hand-written loop, which sends a frame for every token and stores nothing. */
async function byHand(_: IncomingMessage, res: ServerResponse): Promise<void> {
  res.writeHead(200, sseHead)
  let id = 0
  const frame = (event: string, data: object) =>
    res.write(`id: ${++id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  frame('run', { runId: randomUUID() })
  await paced(() => frame('message', { content: word, timestamp: new Date().toISOString() }))
  frame('done', { status: 'finished' })
  res.end()
}

async function runServer(databaseUrl?: string) {
  const folder = mkdtempSync(join(tmpdir(), 'bench-runs-'))
  const dataDir = databaseUrl ? undefined : await openDataDir(folder)
  const store = await openStore({ databaseUrl, dataDir, log: silent })
  await store.migrate('kernel-runs', runMigrations)
  const oracle = { name: 'Bench', did: 'did:key:zOracle' }
  const runs = new Runs({
    store,
    log: silent,
    engine,
    oracle,
    leaseMs: 10_000,
    retentionHours: 1,
  })
  await runs.open()
  const { sessions } = runs
  const serve = async (_: IncomingMessage, res: ServerResponse) => {
    const { sessionId } = await sessions.create(user.did)
    let runId = ''
    const stop = runs.watch(sessionId, { onRun: (id) => (runId = id) })
    void runs.send({ user, sessionId, request: { message: 'Say a hundred words' } })
    while (runId === '') await sleep(1)
    stop()
    res.writeHead(200, sseHead)
    for await (const event of await runs.subscribe(runId)) res.write(toFrame(event))
    res.end()
  }
  const close = async () => {
    await runs.close()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  }
  return { serve, close }
}

async function measure(
  name: string,
  serve: (req: IncomingMessage, res: ServerResponse) => Promise<void>,
): Promise<number> {
  const server: Server = createServer((req, res) => void serve(req, res))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const clients = new Worker(new URL(import.meta.url), {
    workerData: { port, count: settings.runs },
  })
  const before = process.threadCpuUsage()
  const start = performance.now()
  const bytes = await new Promise<number>((resolve, reject) =>
    clients.once('message', resolve).once('error', reject),
  )
  const wall = performance.now() - start
  const { user: inUser, system } = process.threadCpuUsage(before)
  const perToken = (inUser + system) / (settings.runs * settings.tokens)
  console.log(
    `${name}: ${perToken.toFixed(0)} µs CPU a token (${(inUser / settings.runs / settings.tokens).toFixed(0)} user), ` +
      `${(wall / 1000).toFixed(1)} s, ${(bytes / settings.runs / settings.tokens).toFixed(0)} bytes a token`,
  )
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  return perToken
}

async function client(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    get({ port, host: '127.0.0.1', agent: false }, (res) => {
      let bytes = 0
      res.on('data', (chunk: Buffer) => (bytes += chunk.length))
      res.on('end', () => resolve(bytes))
    }).on('error', reject)
  })
}

async function bench(): Promise<void> {
  const { runs, tokens, pauseMs } = settings
  console.log(`${runs} runs of ${tokens} tokens, one every ${pauseMs} ms; node ${process.version}`)
  const loop = await measure('by hand', byHand)
  const sqlite = await runServer()
  const onSqlite = await measure('runs, SQLite', sqlite.serve)
  await sqlite.close()
  console.log(`ratio: ${(onSqlite / loop).toFixed(2)}`)
  const url = process.env.BENCH_DATABASE_URL
  if (!url) return
  const postgres = await runServer(url)
  const onPostgres = await measure('runs, PostgreSQL', postgres.serve)
  await postgres.close()
  console.log(`ratio: ${(onPostgres / loop).toFixed(2)}`)
}

if (isMainThread) await bench()
else {
  const { port, count } = workerData as { port: number; count: number }
  const bytes = await Promise.all(Array.from({ length: count }, () => client(port)))
  parentPort?.postMessage(bytes.reduce((sum, each) => sum + each, 0))
}
