import { DatabaseSync } from 'node:sqlite'
import { changeColumns, entityColumns, perTransaction, rowsOf, type Way, wireOf } from './rows.ts'

/** The hand-written code, on node:sqlite. */
export function bySqlite(path: string): Way & { close(): void } {
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
