/**
 * Measures one design, and a selection of 2,000 from 1,000,000 ids that arrive line by line at a real server with its
 * database on disk, beside only hashing the same ids. The memory figure is the growth of the server's resident set since
 * before the first line.
 */
import { fork } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { createApp } from '#core'
import { sampleSize, studentSize } from '../plugins/sampling/arithmetic/arithmetic.ts'
import { design } from '../plugins/sampling/design/design.ts'
import { requestSchema } from '../plugins/sampling/request.ts'
import sampling from '../plugins/sampling/index.ts'

const many = 1_000_000
const key = 'bench-key'
const idOf = (n: number) => `household-${String(n).padStart(7, '0')}`

async function serve(): Promise<void> {
  const app = await createApp({ plugins: [sampling] })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
  let peak = 0
  setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 10)
  process.on('message', () => {
    const now = process.memoryUsage.rss()
    process.send?.({ cpu: process.cpuUsage().user, rss: now, peak: Math.max(peak, now) })
    peak = now
  })
  process.send?.({ url })
}

async function call(url: string, method: string, body?: unknown): Promise<any> {
  // any: the bench reads single members of its own server's answers
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(await response.text())
  return response.json()
}

/** Sends the ids as NDJSON, as fast as the server takes them. */
async function upload(url: string, perLine: number, place: (n: number) => number): Promise<void> {
  function* lines() {
    for (let n = 0; n < many; n += 1000) {
      const ids = Array.from({ length: 1000 }, (_, at) => idOf(place(n + at)))
      if (perLine === 1) yield ids.map((id) => `"${id}"\n`).join('')
      else yield `${JSON.stringify({ ids })}\n`
    }
  }
  const outgoing = httpRequest(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/x-ndjson' },
  })
  Readable.from(lines()).pipe(outgoing)
  const [response] = await once(outgoing, 'response')
  let text = ''
  for await (const chunk of response) text += chunk
  if (response.statusCode !== 200) throw new Error(text)
}

/** Starts a server, and waits until it is idle, so that its work just after the start is not measured. */
async function rested(folder: string) {
  const server = fork(import.meta.filename, ['serve'], {
    execArgv: [...process.execArgv, '--disable-warning=ExperimentalWarning'],
    env: { ...process.env, API_KEY: key, DATA_DIR: folder, LOG_LEVEL: 'error', MODEL: 'demo' },
  })
  const [{ url }] = (await once(server, 'message')) as [{ url: string }]
  const usage = async () => {
    server.send('usage')
    return ((await once(server, 'message')) as [{ cpu: number; rss: number; peak: number }])[0]
  }
  for (let before = -1, now = 0; now > before;) {
    await sleep(1000)
    before = now
    now = Math.floor((await usage()).cpu / 20_000)
  }
  return { server, url, usage }
}

async function measure(): Promise<void> {
  const asked = requestSchema.parse({
    projectId: 'did:ixo:entity:bench',
    population: many,
    confidence: 0.95,
    precision: 0.05,
    expectedMean: 1,
    expectedSD: 1.1404,
    dropoutRate: 0,
  })
  const each = async (work: (n: number) => unknown, rounds = 2000) => {
    for (let n = 0; n < 200; n++) await work(n)
    const start = performance.now()
    for (let n = 0; n < rounds; n++) await work(n + 200)
    return (((performance.now() - start) * 1000) / rounds).toFixed(0)
  }
  const question = { confidence: 0.95, precision: 0.05, mean: 0.8, sd: 0.2 }
  print(
    `one size:                 ${await each((n) => sampleSize({ ...question, population: 5000 + n }))} µs`,
  )
  print(
    `one size with t:          ${await each((n) => studentSize({ ...question, population: 5000 + n }))} µs`,
  )
  print(
    `one whole design:         ${await each((n) => design({ ...asked, population: 900_000 + n }))} µs`,
  )

  const shuffled = (n: number) => (n * 638_357) % many
  await select(asked, 'one a line', 1, (n) => n)
  await select(asked, 'one a line, in no order', 1, shuffled)
  await select(asked, '1000 a line', 1000, (n) => n)
}

interface Round {
  readonly received: number
  readonly drawing: number
  readonly hashing: number
  readonly times: number
  readonly drawn: number
  readonly peak: number
}

/** Uploads a frame and draws three times at one server, and after each round measures hashing alone. */
async function select(asked: object, how: string, perLine: number, place: (n: number) => number) {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-bench-'))
  const { server, url, usage } = await rested(folder)
  try {
    const idle = await usage()
    const rounds: Round[] = []
    for (let round = 0; round < 3; round++) {
      const made = await call(`${url}/v1/sampling`, 'POST', asked)
      const path = `${url}/v1/sampling/${made.designId}/selection`
      const before = performance.now()
      await upload(`${path}/commit?round=1&source=caller`, perLine, place)
      const committed = performance.now()
      const { strata } = await call(path, 'POST', { beaconHex: 'ab'.repeat(32), reserves: 0 })
      const drawn = performance.now()
      const { peak } = await usage()

      const prefix = hash('sha256', strata[0].seed)
      const start = performance.now()
      for (let n = 0; n < many; n++) hash('sha256', prefix + idOf(n))
      const hashing = performance.now() - start
      const received = committed - before
      const drawing = drawn - committed
      const times = (received + drawing) / hashing
      rounds.push({ received, drawing, hashing, times, drawn: strata[0].ids.length, peak })
    }
    const each = (of: (round: Round) => string) => rounds.map(of).join('  ')
    const seconds = (ms: number) => (ms / 1000).toFixed(2)
    print(`${rounds[0]!.drawn} of ${many} ids over HTTP, ${how}, three times:`)
    print(`  received, sorted, stored: ${await each(({ received }) => seconds(received))} s`)
    print(`  drawn:                    ${await each(({ drawing }) => seconds(drawing))} s`)
    print(`  hashing alone:            ${await each(({ hashing }) => seconds(hashing))} s`)
    print(`  all against hashing:      ${await each(({ times }) => times.toFixed(1))} times`)
    const above = (peak: number) => ((peak - idle.rss) / 2 ** 20).toFixed(0)
    print(`  memory above idle:        ${await each(({ peak }) => above(peak))} MiB`)
  } finally {
    server.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

const print = (line: string) => process.stdout.write(`${line}\n`)

if (process.argv[2] === 'serve') await serve()
else await measure()
