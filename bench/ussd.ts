/**
 * Measures an initial dial: server CPU per request of POST /api/ussd, each a new session in a SQLite file, beside a bare
 * node:http handler that parses and validates the same body and sends the same answer. This process drives the two
 * server processes in alternating rounds. Then the bench measures the times of answers with 64 connections, the memory
 * of an idle session, and the heap after 100,000 sessions have expired.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createApp } from '#core'
import ussd from '../plugins/ussd/index.ts'
import { requestSchema } from '../plugins/ussd/request.ts'
import { beTarget, median, Target } from './support/target.ts'

const rounds = 11
const perRound = 4000
const idleSessions = 20_000
const manySessions = 100_000

type Kind = 'bare' | 'gateway' | 'brief'

async function serve(kind: Kind): Promise<void> {
  beTarget(await (kind === 'bare' ? listenBare() : listenGateway(kind)))
}

async function listenBare(): Promise<number> {
  const welcome = 'CON Welcome to the oracle\n1. Know more\n2. Account\n3. Ask the oracle\n*. Exit'
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const read = requestSchema.safeParse(JSON.parse(Buffer.concat(chunks).toString()))
      res.setHeader('Content-Type', 'text/plain; charset=utf-8')
      res.end(read.success ? welcome : 'END Invalid input. Please try again.')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function listenGateway(kind: Kind): Promise<number> {
  const app = await createApp({
    plugins: [ussd],
    log: () => undefined,
    env: {
      DATA_DIR: process.env.BENCH_DATA_DIR,
      DATABASE_URL: process.env.BENCH_DATABASE_URL,
      LOG_LEVEL: 'warn',
      RATE_LIMIT_PER_MINUTE: '1000000000',
      USSD_RATE_LIMIT_PER_MINUTE: '1000000000',
      USSD_SESSION_TTL_SECONDS: kind === 'brief' ? '20' : '3600',
    },
  })
  return (await app.listen({ port: 0, host: '127.0.0.1' })).port
}

let session = 0
/** The request of an initial dial with a new session id. */
function dial(): string {
  const id = String(++session).padStart(12, '0')
  const body = JSON.stringify({
    sessionId: `ATUid_${id}`,
    serviceCode: '*384*123#',
    phoneNumber: `+254${id.slice(-9)}`,
    text: '',
  })
  return `POST /api/ussd HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

/** Dials new sessions over keep-alive connections; resolves to how long each answer took, in milliseconds. */
async function drive(port: number, requests: number, connections: number): Promise<number[]> {
  const took: number[] = []
  let left = requests
  await Promise.all(
    Array.from(
      { length: connections },
      () =>
        new Promise<void>((resolve, reject) => {
          let received = ''
          let sentAt = 0
          const next = () => {
            if (left-- <= 0) return socket.end(resolve)
            sentAt = performance.now()
            socket.write(dial())
          }
          const socket = connect(port, '127.0.0.1', next)
          socket.setEncoding('latin1').on('error', reject)
          socket.on('data', (chunk: string) => {
            received += chunk
            const end = received.indexOf('\r\n\r\n')
            const length = Number(/content-length: (\d+)/i.exec(received)?.[1])
            if (end < 0 || received.length < end + 4 + length) return
            if (!received.includes('CON Welcome')) return reject(new Error(received))
            took.push(performance.now() - sentAt)
            received = ''
            next()
          })
        }),
    ),
  )
  return took
}

async function costOf(target: Target): Promise<number> {
  const before = await target.usage('cpu')
  await drive(target.port, perRound, 16)
  return ((await target.usage('cpu')).cpu - before.cpu) / perRound
}

/** The usage after all connections have closed and two garbage collections have run, because one does not free everything. */
async function settled(target: Target) {
  await sleep(1000)
  await target.usage('gc')
  await sleep(200)
  return target.usage('gc')
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-ussd-'))
  process.env.BENCH_DATA_DIR = join(folder, 'long')
  const bare = new Target(import.meta.filename, 'bare')
  const gateway = new Target(import.meta.filename, 'gateway')
  process.env.BENCH_DATA_DIR = join(folder, 'brief')
  const brief = new Target(import.meta.filename, 'brief')
  try {
    await Promise.all([bare.start(), gateway.start(), brief.start()])
    print(`${cpus()[0]?.model} x ${cpus().length}, Node ${process.version}`)
    for (const target of [bare, gateway]) await drive(target.port, perRound * 2, 16)
    const taken: { bare: number; gateway: number }[] = []
    for (let round = 0; round < rounds; round++)
      if (round % 2 === 0) taken.push({ bare: await costOf(bare), gateway: await costOf(gateway) })
      else {
        const ours = await costOf(gateway)
        taken.push({ bare: await costOf(bare), gateway: ours })
      }
    print(`${rounds} rounds of ${perRound} initial dials, 16 connections, SQLite file`)
    print(`bare node:http:    ${median(taken.map((each) => each.bare)).toFixed(1)} µs CPU per dial`)
    print(
      `gateway:           ${median(taken.map((each) => each.gateway)).toFixed(1)} µs CPU per dial`,
    )
    const ratios = taken.map((each) => each.gateway / each.bare)
    print(`ratio:             ${median(ratios).toFixed(2)} (median of rounds)`)

    const took = (await drive(gateway.port, 10_000, 64)).toSorted((a, b) => a - b)
    const at = (share: number) => (took[Math.floor(took.length * share)] ?? NaN).toFixed(1)
    print(`64 connections:    p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`)

    const before = await settled(gateway)
    await drive(gateway.port, idleSessions, 16)
    const after = await settled(gateway)
    print(
      `idle session:      ${Math.round((after.heap - before.heap) / idleSessions)} bytes of heap`,
    )

    await drive(brief.port, 2000, 16)
    await sleep(25_000)
    const empty = await settled(brief)
    await drive(brief.port, manySessions, 32)
    const full = await brief.usage('gc')
    await sleep(45_000)
    const expired = await settled(brief)
    print(
      `heap of ${manySessions} sessions: ${mib(empty.heap)} MiB before, ${mib(full.heap)} when made, ${mib(expired.heap)} when expired`,
    )
  } finally {
    for (const target of [bare, gateway, brief]) target.process.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

const print = (line: string) => process.stdout.write(`${line}\n`)
const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(1)

const kind = process.argv[2]
if (kind === 'bare' || kind === 'gateway' || kind === 'brief') await serve(kind)
else await measure()
