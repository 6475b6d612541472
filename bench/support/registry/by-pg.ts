import pg from 'pg'
import {
  changeColumns,
  entityColumns,
  perTransaction,
  type Row,
  rowsOf,
  type Way,
  wireOf,
} from './rows.ts'

/** Runs a prepared statement, which the server knows by its name. */
type Named = (name: string, text: string, values: unknown[]) => Promise<pg.QueryResult>

/** The hand-written code, on pg. */
export async function byPg(url: string): Promise<Way & { close(): Promise<void> }> {
  const db = new pg.Client(url)
  await db.connect()
  const named: Named = (name, text, values) => db.query({ name, text, values })
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
    walk: (did, depth) => walk(named, did, depth),
    close: () => db.end(),
  }
}

async function walk(named: Named, did: string, depth: number) {
  const { rows } = await named('read', 'select * from registry_entities where did = $1', [did])
  const nodes = [{ did, type: rows[0].type, depth: 0 }]
  const seen = new Set([did])
  const walked: unknown[] = []
  let level = [did]
  for (let at = 1; at <= depth; at++) {
    const { rows } = await named(
      'steps',
      'select e.source, e.role, e.target, n.type from registry_edges e join registry_entities n ' +
        'on n.did = e.target where e.source = any($1)',
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
}
