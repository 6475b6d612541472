/**
 * Measures the registry in process, beside hand-written code on node:sqlite (and pg) that writes the same rows into the
 * same tables in the same transactions and does the same reads, without checks, history pages, HTTP or a query builder.
 * The rounds of the two alternate, and the bench compares their medians.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../core/runtime/store/store.ts'
import { createIndexes } from '../plugins/registry/indexes/tables.ts'
import { Registry } from '../plugins/registry/registry.ts'
import { createClaims } from '../plugins/registry/claims/tables.ts'
import { everything } from '../plugins/registry/rights/reader.ts'
import { createRights } from '../plugins/registry/rights/tables.ts'
import { createEntities, createProtocols } from '../plugins/registry/tables.ts'
import { freshDatabase } from '../test/support/database.ts'
import { silent } from '../test/support/silent-log.ts'
import { byPg } from './support/registry/by-pg.ts'
import { bySqlite } from './support/registry/by-sqlite.ts'
import { lineOf, protocol, type Way } from './support/registry/rows.ts'
import { median } from './support/target.ts'

const actor = { name: 'bench', did: undefined, isOperator: true, actsFor: () => true }
const quotas = { entities: 1, protocols: 1, edges: 1, claims: 1 } // quotas do not apply to the holder of an API key
const print = (line: string) => process.stdout.write(`${line}\n`)

/** A full tree with eight branches at each node: 585 nodes down to depth 3. */
function* tree(
  root: string,
): Generator<{ did: string; relationships: { role: string; target: string }[] }> {
  const level = function* (did: string, depth: number): Generator<any> {
    const children = depth === 3 ? [] : Array.from({ length: 8 }, (_, n) => `${did}.${n}`)
    yield { did, relationships: children.map((target) => ({ role: 'contains', target })) }
    for (const child of children) yield* level(child, depth + 1)
  }
  yield* level(root, 0)
}

async function ours(store: Store): Promise<Way & { registry: Registry }> {
  await store.migrate('registry', {
    '001-entities': createEntities,
    '002-protocols': createProtocols,
    '003-claims': createClaims,
    '004-rights': createRights,
    '005-indexes': createIndexes,
  })
  const made = new Registry({
    db: store.db,
    oracle: {
      name: 'Bench',
      did: 'did:key:bench',
      aliases: [],
      keysOf: async () => [],
      url: () => '',
    },
    organisational: new Set(),
    quotas,
    isPublic: false,
    askToFill: async () => {},
    askForWork: async () => undefined,
    imprecisionOf: async () => undefined,
  })
  await made.protocolChanges.create(actor, {
    type: 'Protocol',
    did: protocol,
    properties: {
      name: { type: 'string', required: true },
      fuel: { type: 'string', enum: ['ethanol', 'pellets'] },
      power: { type: 'number', min: 0 },
      burners: 'integer',
      active: 'boolean',
    },
  })
  await made.protocolChanges.create(actor, { type: 'Protocol', did: `${protocol}:open` })
  const { entities, batches } = made
  return {
    registry: made,
    async batch(lines) {
      const read = (async function* () {
        for (const [at, line] of lines.entries()) yield { number: at + 1, value: JSON.parse(line) }
      })()
      for await (const results of batches.each(actor, read))
        if (results.includes('"error"')) throw new Error(results)
    },
    read: (did) => entities.read(did),
    list: (after) => made.lists.list({ type: 'CookstoveEntity' }, everything, 50, after),
    walk: (did, depth) =>
      made.graph.walk(did, { depth, directions: new Set(['out'] as const) }, everything),
  }
}

async function compare(store: Store, way: Way & { registry: Registry }, hand: Way, rounds: number) {
  const lines = Array.from(tree('did:ixo:entity:tree'), (node) => ({
    ...node,
    type: 'Node',
    protocol: `${protocol}:open`,
    properties: {},
  }))
  await way.registry.batches.together(
    actor,
    (async function* () {
      for (const [at, value] of lines.entries()) yield { number: at + 1, value }
    })(),
  )

  let batches = 0
  const size = 5000
  const fresh = () => {
    const prefix = `${randomBytes(4).toString('hex')}${batches++}`
    return Array.from({ length: size }, (_, n) => lineOf(prefix, n))
  }
  const known = fresh()
  await way.batch(known)
  const dids = known.map((line) => JSON.parse(line).did as string)
  // PostgreSQL analyzes by itself about a minute after so many inserts; before that its query plans are guesses.
  await sql`analyze`.execute(store.db)

  const parts: [string, number, (way: Way) => Promise<unknown>][] = [
    ['batch create', size, (way) => way.batch(fresh())],
    [
      'point read',
      4000,
      async (way) => {
        for (let n = 0; n < 4000; n++) await way.read(dids[(n * 7) % size]!)
      },
    ],
    [
      'list page of 50',
      100,
      async (way) => {
        for (let n = 0; n < 100; n++) await way.list(n * 40)
      },
    ],
    ...[2, 3].map((depth): [string, number, (way: Way) => Promise<unknown>] => [
      `traversal, depth ${depth}`,
      40,
      async (way) => {
        for (let n = 0; n < 40; n++) {
          const { nodes } = await way.walk('did:ixo:entity:tree', depth)
          if (nodes.length !== [1, 9, 73, 585][depth]) throw new Error(`${nodes.length} nodes`)
        }
      },
    ]),
  ]
  print(`${store.kind}: ours, by hand, ratio (median of ${rounds} rounds)`)
  for (const [what, count, work] of parts) {
    await work(way)
    await work(hand)
    const times: [number[], number[]] = [[], []]
    for (let round = 0; round < rounds; round++)
      for (const [at, who] of [way, hand].entries()) {
        const start = performance.now()
        await work(who)
        times[at as 0 | 1].push(((performance.now() - start) * 1000) / count)
      }
    const [own, by] = times.map(median) as [number, number]
    const rate = Math.round(1e6 / own).toLocaleString('en')
    print(
      `  ${what.padEnd(20)} ${own.toFixed(1).padStart(8)} µs ${by.toFixed(1).padStart(8)} µs ` +
        `${(own / by).toFixed(2).padStart(6)}   ${rate} a second`,
    )
  }
  const single: number[] = []
  for (let n = 0; n < 100; n++) {
    const start = performance.now()
    await way.registry.changes.create(actor, JSON.parse(lineOf(`single${batches}`, n)))
    single.push(performance.now() - start)
  }
  print(`  one durable create   ${median(single).toFixed(2).padStart(8)} ms`)
}

const folder = mkdtempSync(join(tmpdir(), 'oracle-bench-'))
try {
  const dataDir = await openDataDir(folder)
  const store = await openStore({ dataDir, log: silent })
  const way = await ours(store)
  const hand = bySqlite(join(folder, 'oracle.sqlite'))
  await compare(store, way, hand, 9)
  hand.close()
  await store.close()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

const server = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
try {
  const database = await freshDatabase(server)
  try {
    const store = await openStore({ databaseUrl: database.url, log: silent })
    const way = await ours(store)
    const hand = await byPg(database.url)
    await compare(store, way, hand, 5)
    await hand.close()
    await store.close()
  } finally {
    await database.drop()
  }
} catch (error) {
  print(`PostgreSQL left out: ${error instanceof Error ? error.message : error}`)
}
