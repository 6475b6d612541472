/**
 * Fills a registry on SQLite, or on PostgreSQL with BENCH_POSTGRES=1, with a million twins (BENCH_TWINS) and asks it in
 * process: point read, indexed range, sorted page, edge query, sorted page of an edge, 2,000 times each. Beside it a
 * thread sends GET / to the server of the same process, whose answers show whether a query holds up the event loop.
 * Before that, an import with indexes stands beside one without.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import pg from 'pg'
import { createApp, definePlugin } from '#core'
import registryPlugin from '../plugins/registry/index.ts'
import type { Registry } from '../plugins/registry/registry.ts'
import { everything } from '../plugins/registry/rights/reader.ts'
import { freshDatabase } from '../test/support/database.ts'

const twins = Number(process.env.BENCH_TWINS ?? 1_000_000)
const compared = Math.min(100_000, twins / 4)
const asked = 2000
const actor = { name: 'key:bench', did: undefined, isOperator: true, actsFor: () => true }
const properties = { serial: 'string', power: 'number', region: 'string' }
const indexes = { serial: 'string', power: 'number', region: 'string' } as const
const regions = ['north', 'south', 'east', 'west']
const print = (line: string) => process.stdout.write(`${line}\n`)

/** Sends GET / every few milliseconds until it is told to stop, and tells how long each answer took. */
async function knock(url: string): Promise<void> {
  const took: number[] = []
  let isOver = false
  parentPort?.once('message', () => (isOver = true))
  while (!isOver) {
    const start = performance.now()
    await (await fetch(url)).arrayBuffer()
    took.push(performance.now() - start)
    await new Promise((resolve) => setTimeout(resolve, 3))
  }
  parentPort?.postMessage(took)
}

const quantile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[
    Math.min(values.length - 1, Math.floor(values.length * share))
  ] ?? NaN
const shown = (ms: number) => `${ms.toFixed(2).padStart(8)} ms`
const row = (what: string, took: readonly number[]) =>
  print(
    `  ${what.padEnd(40)} ${[0.5, 0.99, 1].map((share) => shown(quantile(took, share))).join(' ')}`,
  )

async function fill(registry: Registry, protocol: string, count: number, prefix: string) {
  const lines = (async function* () {
    for (let n = 0; n < count; n++)
      yield {
        number: n + 1,
        value: {
          did: `did:ixo:bench/${prefix}${n}`,
          type: 'Meter',
          protocol,
          properties: {
            serial: `${prefix}${String(n).padStart(8, '0')}`,
            power: (n * 7919) % 100_003,
            region: regions[n % regions.length],
          },
          // Every thousandth twin has an edge to the hub of its thousand.
          ...(n % 1000 === 0 && {
            relationships: [{ role: 'joins', target: 'did:ixo:bench/hub' }],
          }),
        },
      }
  })()
  const start = performance.now()
  for await (const results of registry.batches.each(actor, lines))
    if (results.includes('"error"')) throw new Error(results.slice(0, 1000))
  return count / ((performance.now() - start) / 1000)
}

async function analyze(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('analyze')
  await client.end()
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-bench-'))
  const address = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
  const database = process.env.BENCH_POSTGRES ? await freshDatabase(address) : undefined
  let found: (() => Promise<Registry>) | undefined
  const reach = definePlugin({
    name: 'reach',
    summary: 'Hands the registry to the bench.',
    requires: [registryPlugin],
    setup({ plugins }) {
      found = () => plugins.registry.registry()
    },
  })
  const app = createApp({
    plugins: [registryPlugin, reach],
    env: {
      DATA_DIR: folder,
      ...(database && { DATABASE_URL: database.url }),
      LOG_LEVEL: 'error',
      API_KEY: 'bench:bench',
      RATE_LIMIT_PER_MINUTE: '100000000',
    },
  })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
  try {
    if (!found) throw new Error('The registry is not there.')
    const registry = await found()
    for (const [did, more] of [
      ['did:ixo:bench/plain', {}],
      ['did:ixo:bench/indexed', { indexes }],
    ] as const)
      await registry.protocolChanges.create(actor, {
        type: 'Protocol',
        did,
        properties,
        ...more,
      } as never) // the schema's output, written by hand
    await registry.changes.create(actor, {
      did: 'did:ixo:bench/hub',
      type: 'Hub',
      protocol: 'did:ixo:bench/plain',
      properties: {},
    })
    const rates: [number[], number[]] = [[], []]
    for (let round = 0; round < 4; round++) {
      const isIndexed = round % 2 === 1
      const protocol = isIndexed ? 'did:ixo:bench/indexed' : 'did:ixo:bench/plain'
      rates[isIndexed ? 1 : 0].push(await fill(registry, protocol, compared / 2, `c${round}-`))
    }
    const [plain, indexed] = rates.map((all) => quantile(all, 0.5)) as [number, number]
    print(`import of ${compared} twins without indexes  ${plain.toFixed(0)} a second`)
    print(`import of ${compared} twins with 3 indexes   ${indexed.toFixed(0)} a second`)
    print(`with beside without                     ${(indexed / plain).toFixed(2)}`)
    const rate = await fill(registry, 'did:ixo:bench/indexed', twins, 'm')
    print(`import of ${twins} more with 3 indexes  ${rate.toFixed(0)} a second\n`)

    // PostgreSQL analyzes by itself about a minute after so many inserts; before that its query plans are guesses.
    if (database) await analyze(database.url)
    const worker = new Worker(new URL(import.meta.url), { workerData: `${url}/` })
    const find = (where: string, sort?: string) =>
      registry.queries.find({ where, limit: 50, ...(sort && { sort }) }, everything)
    const at = (n: number) => (n * 104_729) % twins
    const kinds: [string, (n: number) => Promise<unknown>][] = [
      ['point read', (n) => registry.entities.read(`did:ixo:bench/m${at(n)}`)],
      [
        'indexed range',
        (n) => find(`power between ${at(n) % 100_000} and ${(at(n) % 100_000) + 3}`),
      ],
      [
        'sorted page',
        (n) => find(`region = '${regions[n % 4]}' and power > ${at(n) % 100_000}`, '-power'),
      ],
      [
        'edge query',
        (n) =>
          find(
            `@out.joins = 'did:ixo:bench/hub' and serial prefix 'm${String(at(n)).padStart(8, '0').slice(0, 5)}'`,
          ),
      ],
      [
        'sorted page of an edge',
        (n) => find(`@out.joins = 'did:ixo:bench/hub' and power > ${at(n) % 50_000}`, '-power'),
      ],
    ]
    print(
      `${asked} of each in process, on ${twins} twins            p50          p99          most`,
    )
    for (const [what, ask] of kinds) {
      const took: number[] = []
      for (let n = 0; n < asked; n++) {
        const start = performance.now()
        await ask(n)
        took.push(performance.now() - start)
      }
      row(what, took)
    }
    worker.postMessage('stop')
    const took = await new Promise<number[]>((resolve) => worker.once('message', resolve))
    row(`GET / beside them, ${took.length} times`, took)
    await worker.terminate()
  } finally {
    await app.close()
    await database?.drop()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (isMainThread) await measure()
else await knock(String(workerData))
