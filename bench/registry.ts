/**
 * What the registry costs in process, against node:sqlite (and pg) doing the same by hand: the same rows into the same
 * tables in the same transactions, the same reads, without checks, history pages, HTTP or a query builder. Rounds
 * alternate; the median of each is compared.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import pg from 'pg'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../core/runtime/store/store.ts'
import { Registry } from '../plugins/registry/registry.ts'
import { createClaims } from '../plugins/registry/claims/tables.ts'
import { everything } from '../plugins/registry/rights/reader.ts'
import { createRights } from '../plugins/registry/rights/tables.ts'
import { createEntities, createProtocols } from '../plugins/registry/tables.ts'
import { freshDatabase } from '../test/support/database.ts'
import { silent } from '../test/support/silent-log.ts'
import { median } from './support/target.ts'

const actor = { name: 'bench', did: undefined, isOperator: true, actsFor: () => true }
const quotas = { entities: 1, protocols: 1, edges: 1, claims: 1 } // none for the holder of a key
const protocol = 'did:ixo:protocol:bench'
const print = (line: string) => process.stdout.write(`${line}\n`)

/** One way to do the work; the registry and the hands of a programmer both are one. */
interface Way {
  batch(lines: readonly string[]): Promise<unknown>
  read(did: string): Promise<unknown>
  list(after: number): Promise<{ items: readonly unknown[] }>
  walk(did: string, depth: number): Promise<{ nodes: readonly unknown[] }>
}

const lineOf = (prefix: string, n: number) =>
  JSON.stringify({
    did: `did:ixo:entity:${prefix}${String(n).padStart(8, '0')}`,
    type: 'CookstoveEntity',
    protocol,
    properties: { name: `Stove ${n}`, fuel: 'ethanol', power: n / 10, burners: 2, active: true },
  })

/** Full trees, eight branches a node: 585 nodes at depth 3. */
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
  })
  const made = new Registry({
    db: store.db,
    oracle: { did: 'did:key:bench', aliases: [], keysOf: async () => [], url: () => '' },
    organisational: new Set(),
    quotas,
    isPublic: false,
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

const entityColumns =
  'did, ordinal, type, class, controller, protocol, protocol_version, status, version, created_at, updated_at, properties, details, search, edges_made'
const changeColumns =
  'seq, kind, did, version, type, action, actor, at, about, controller, protocol, protocol_version, properties, details'

function rowsOf(line: string, seq: number, at: string) {
  const { did, type, properties } = JSON.parse(line)
  const text = JSON.stringify(properties)
  const search = `${did}\n${type}\n${properties.name}\n${properties.fuel}`.toLowerCase()
  return {
    entity: [
      did,
      seq,
      type,
      null,
      'did:key:bench',
      protocol,
      1,
      'active',
      1,
      at,
      at,
      text,
      null,
      search,
      0,
    ],
    change: [
      seq,
      'entity',
      did,
      1,
      type,
      'created',
      'bench',
      at,
      null,
      'did:key:bench',
      protocol,
      1,
      text,
      null,
    ],
  }
}

interface Row {
  did: string
  type: string
  controller: string
  protocol: string
  protocol_version: number
  properties: string
  details: string | null
  status: string
  version: number
  created_at: string
  updated_at: string
  edges_made: number
}

const wireOf = (
  row: Row,
  edges: readonly { role: string; target: string; properties: string | null }[],
) => ({
  did: row.did,
  type: row.type,
  controller: row.controller,
  protocol: { did: row.protocol, version: row.protocol_version },
  properties: JSON.parse(row.properties),
  services: row.details === null ? [] : JSON.parse(row.details).services,
  relationships: edges.map(({ role, target, properties }) =>
    properties === null ? { role, target } : { role, target, properties: JSON.parse(properties) },
  ),
  status: row.status,
  version: row.version,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})

const perTransaction = 500

function bySqlite(path: string): Way & { close(): void } {
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = wal; pragma synchronous = full; pragma busy_timeout = 5000')
  const marks = (columns: string) =>
    columns
      .split(',')
      .map(() => '?')
      .join(',')
  const insert = db.prepare(
    `insert into registry_entities (${entityColumns}) values (${marks(entityColumns)})`,
  )
  const record = db.prepare(
    `insert into registry_changes (${changeColumns}) values (${marks(changeColumns)})`,
  )
  const clock = db.prepare('update registry_clock set seq = seq + ? where id = 1 returning seq')
  const byDid = db.prepare('select * from registry_entities where did = ?')
  const edges = db.prepare('select * from registry_edges where source = ? order by position')
  const page = db.prepare(
    "select * from registry_entities where type = ? and status = 'active' and ordinal > ? order by ordinal limit ?",
  )
  const steps = db.prepare(
    'select e.source, e.role, e.target, n.type from registry_edges e join registry_entities n on n.did = e.target where e.source = ?',
  )
  const entityOf = (row: any) =>
    wireOf(row, row.edges_made > 0 ? (edges.all(row.did) as any[]) : [])
  return {
    async batch(lines) {
      for (let from = 0; from < lines.length; from += perTransaction) {
        const part = lines.slice(from, from + perTransaction)
        db.exec('begin immediate')
        let seq = Number((clock.get(part.length) as { seq: number }).seq) - part.length
        const at = new Date().toISOString()
        for (const line of part) {
          const { entity, change } = rowsOf(line, ++seq, at)
          insert.run(...entity)
          record.run(...change)
        }
        db.exec('commit')
      }
    },
    read: async (did) => entityOf(byDid.get(did)),
    list: async (after) => ({ items: page.all('CookstoveEntity', after, 51).map(entityOf) }),
    async walk(did, depth) {
      const { type } = byDid.get(did) as any
      const nodes = [{ did, type, depth: 0 }]
      const seen = new Set([did])
      const walked: unknown[] = []
      let level = [did]
      for (let at = 1; at <= depth; at++) {
        const next: string[] = []
        for (const from of level)
          for (const { source, role, target, type } of steps.all(from) as any[]) {
            walked.push({ from: source, role, to: target })
            if (seen.has(target)) continue
            seen.add(target)
            nodes.push({ did: target, type, depth: at })
            next.push(target)
          }
        level = next
      }
      nodes.sort((a, b) => a.depth - b.depth || (a.did < b.did ? -1 : 1))
      return { nodes, edges: walked }
    },
    close: () => db.close(),
  }
}

async function byPg(url: string): Promise<Way & { close(): Promise<void> }> {
  const db = new pg.Client(url)
  await db.connect()
  const named = (name: string, text: string, values: unknown[]) => db.query({ name, text, values })
  const all = (columns: string, rows: readonly unknown[][]) => {
    const width = columns.split(',').length
    return rows
      .map((_, row) => `(${Array.from({ length: width }, (_, at) => `$${row * width + at + 1}`)})`)
      .join(',')
  }
  const entityOf = async (row: Row) => {
    const found =
      row.edges_made > 0
        ? await named('edges', 'select * from registry_edges where source = $1 order by position', [
            row.did,
          ])
        : { rows: [] }
    return wireOf(row, found.rows)
  }
  return {
    async batch(lines) {
      for (let from = 0; from < lines.length; from += perTransaction) {
        const part = lines.slice(from, from + perTransaction)
        await db.query('begin')
        const { rows } = await named(
          'clock',
          'update registry_clock set seq = seq + $1 where id = 1 returning seq',
          [part.length],
        )
        let seq = Number(rows[0].seq) - part.length
        const at = new Date().toISOString()
        const made = part.map((line) => rowsOf(line, ++seq, at))
        for (let at = 0; at < made.length; at += 50) {
          const some = made.slice(at, at + 50)
          const entities = some.map(({ entity }) => entity)
          const changes = some.map(({ change }) => change)
          await named(
            'insert',
            `insert into registry_entities (${entityColumns}) values ${all(entityColumns, entities)}`,
            entities.flat(),
          )
          await named(
            'record',
            `insert into registry_changes (${changeColumns}) values ${all(changeColumns, changes)}`,
            changes.flat(),
          )
        }
        await db.query('commit')
      }
    },
    async read(did) {
      const { rows } = await named('read', 'select * from registry_entities where did = $1', [did])
      return entityOf(rows[0])
    },
    async list(after) {
      const { rows } = await named(
        'page',
        "select * from registry_entities where type = $1 and status = 'active' and ordinal > $2 order by ordinal limit $3",
        ['CookstoveEntity', after, 51],
      )
      return { items: await Promise.all(rows.map(entityOf)) }
    },
    async walk(did, depth) {
      const { rows } = await named('read', 'select * from registry_entities where did = $1', [did])
      const nodes = [{ did, type: rows[0].type, depth: 0 }]
      const seen = new Set([did])
      const walked: unknown[] = []
      let level = [did]
      for (let at = 1; at <= depth; at++) {
        const { rows } = await named(
          'steps',
          'select e.source, e.role, e.target, n.type from registry_edges e join registry_entities n on n.did = e.target where e.source = any($1)',
          [level],
        )
        const next: string[] = []
        for (const { source, role, target, type } of rows) {
          walked.push({ from: source, role, to: target })
          if (seen.has(target)) continue
          seen.add(target)
          nodes.push({ did: target, type, depth: at })
          next.push(target)
        }
        level = next
      }
      nodes.sort((a, b) => a.depth - b.depth || (a.did < b.did ? -1 : 1))
      return { nodes, edges: walked }
    },
    close: () => db.end(),
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
  // What the server does by itself a minute after so many inserts; until then its plans are guesses.
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
      `  ${what.padEnd(20)} ${own.toFixed(1).padStart(8)} µs ${by.toFixed(1).padStart(8)} µs ${(own / by).toFixed(2).padStart(6)}   ${rate} a second`,
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
