/**
 * What sampling costs: one design, and a selection of 2,000 from 1,000,000 ids that arrive line by line at a real
 * server with its database on disk, against hashing the same ids and nothing else. Memory is the server's resident
 * set above what it was before the first line.
 */
import { fork } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createApp } from '../core/index.ts'
import { sampleSize, studentSize } from '../plugins/sampling/arithmetic.ts'
import { design } from '../plugins/sampling/design.ts'
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
  process.on('message', (what) => {
    if (what === 'idle') globalThis.gc?.()
    const now = process.memoryUsage.rss()
    process.send?.({ rss: now, peak: Math.max(peak, now) })
    if (what === 'idle') peak = now
  })
  process.send?.({ url })
}

async function call(url: string, method: string, body?: unknown): Promise<any> {
  // any: what our own server answers, used right away
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(await response.text())
  return response.json()
}

/** Sends the ids as NDJSON, as fast as the server takes them. */
async function upload(url: string, perLine: number): Promise<void> {
  function* lines() {
    for (let n = 0; n < many; n += 1000) {
      const ids = Array.from({ length: 1000 }, (_, at) => idOf(n + at))
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
  const each = (work: (n: number) => unknown, rounds = 2000) => {
    for (let n = 0; n < 200; n++) work(n)
    const start = performance.now()
    for (let n = 0; n < rounds; n++) work(n + 200)
    return (((performance.now() - start) * 1000) / rounds).toFixed(0)
  }
  const question = { confidence: 0.95, precision: 0.05, mean: 0.8, sd: 0.2 }
  print(
    `one size:                 ${each((n) => sampleSize({ ...question, population: 5000 + n }))} µs`,
  )
  print(
    `one size with t:          ${each((n) => studentSize({ ...question, population: 5000 + n }))} µs`,
  )
  print(
    `one whole design:         ${each((n) => design({ ...asked, population: 900_000 + n }))} µs`,
  )

  const folder = mkdtempSync(join(tmpdir(), 'oracle-bench-'))
  const server = fork(import.meta.filename, ['serve'], {
    execArgv: [...process.execArgv, '--disable-warning=ExperimentalWarning'],
    env: { ...process.env, API_KEY: key, DATA_DIR: folder, LOG_LEVEL: 'error', MODEL: 'demo' },
  })
  const usage = async (what: string) => {
    server.send(what)
    return ((await once(server, 'message')) as [{ rss: number; peak: number }])[0]
  }
  try {
    const [{ url }] = (await once(server, 'message')) as [{ url: string }]
    for (const perLine of [1, 1000]) {
      const made = await call(`${url}/v1/sampling`, 'POST', asked)
      const path = `${url}/v1/sampling/${made.designId}/selection`
      const idle = await usage('idle')

      const before = performance.now()
      await upload(`${path}/commit/lines?round=1`, perLine)
      const committed = performance.now()
      const { strata } = await call(path, 'POST', { beaconHex: 'ab'.repeat(32), reserves: 0 })
      const drawn = performance.now()
      const { peak } = await usage('peak')

      const prefix = hash('sha256', strata[0].seed)
      const start = performance.now()
      for (let n = 0; n < many; n++) hash('sha256', prefix + idOf(n))
      const hashing = performance.now() - start
      const seconds = (ms: number) => (ms / 1000).toFixed(2)
      print(`${strata[0].ids.length} of ${many} ids over HTTP, ${perLine} a line:`)
      print(`  received, sorted, stored: ${seconds(committed - before)} s`)
      print(`  drawn:                    ${seconds(drawn - committed)} s`)
      print(`  hashing alone:            ${seconds(hashing)} s`)
      print(`  all against hashing:      ${((drawn - before) / hashing).toFixed(1)} times`)
      print(`  drawing against hashing:  ${((drawn - committed) / hashing).toFixed(1)} times`)
      print(`  memory above idle:        ${((peak - idle.rss) / 2 ** 20).toFixed(0)} MiB`)
    }
  } finally {
    server.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

const print = (line: string) => process.stdout.write(`${line}\n`)

if (process.argv[2] === 'serve') await serve()
else await measure()
