import { sql } from 'kysely'
import type { MemoryDatabase } from '../tables.ts'
import type { Passages } from './passages.ts'
import type { Vault } from './vault.ts'

/** The columns that are sealed, and the column whose value a seal is bound to beside the DID. */
const sealed = [
  { table: 'memory_memories', id: 'id', columns: ['text', 'value', 'about'] },
  { table: 'memory_sources', id: 'memory_id', columns: ['quote'], also: 'run_id' },
  { table: 'memory_passages', id: 'run_id', columns: ['words', 'reply'] },
  { table: 'memory_vectors', id: 'memory_id', columns: ['vector'] },
] as const

/** How many rows one transaction seals anew. */
const perStep = 200

type Row = Readonly<Record<string, string>>

/** Seals with the key of now what the key before sealed, or what lies open; the old key can go then. Resolves to how many rows. */
export async function reseal(
  db: MemoryDatabase,
  vault: Vault,
  passages: Passages,
): Promise<number> {
  const mark = vault.ownMark
  if (mark === undefined) return 0
  await dropFindable(db, passages)
  let count = 0
  for (const each of sealed) {
    const { table, id, columns } = each
    const key = 'also' in each ? [id, each.also] : [id]
    const isOpen = sql.join(
      columns.map(
        (column) => sql`(${sql.ref(column)} <> '' and ${sql.ref(column)} not like ${`${mark}%`})`,
      ),
      sql` or `,
    )
    for (;;) {
      const done = await db.transaction().execute(async (trx) => {
        const { rows } =
          await sql<Row>`select ${sql.join([...key, 'did', ...columns].map((name) => sql.ref(name)))}
          from ${sql.table(table)} where ${isOpen} limit ${perStep}`.execute(trx)
        for (const row of rows) {
          const [own = '', did = ''] = [row[id], row['did']]
          const set = columns.map((column) => {
            const text = vault.read(row[column] ?? '', own, did)
            return sql`${sql.ref(column)} = ${text === '' ? '' : vault.write(text, own, did)}`
          })
          const where = key.map((name) => sql`${sql.ref(name)} = ${row[name]}`)
          // Somebody who changed the row meanwhile has sealed it, too.
          const before = columns.map((column) => sql`${sql.ref(column)} = ${row[column]}`)
          await sql`update ${sql.table(table)} set ${sql.join(set)}
            where ${sql.join([...where, ...before], sql` and `)}`.execute(trx)
        }
        return rows.length
      })
      count += done
      if (done < perStep) break
    }
  }
  return count
}

/** What was findable before there was a key lies open, words and index. */
async function dropFindable(db: MemoryDatabase, passages: Passages): Promise<void> {
  for (;;) {
    const done = await db.transaction().execute(async (trx) => {
      const rows = await trx
        .selectFrom('memory_passages')
        .select(['run_id', 'read_at'])
        .where('findable', '=', 1)
        .limit(perStep)
        .execute()
      const runs = rows.map(({ run_id }) => run_id)
      if (runs.length === 0) return 0
      await passages.drop(trx, runs)
      await trx
        .updateTable('memory_passages')
        .set((eb) => ({
          findable: 0,
          // What has yet to be read keeps its words until then, sealed by the step that follows.
          words: eb.case().when('read_at', 'is', null).then(eb.ref('words')).else('').end(),
        }))
        .where('run_id', 'in', runs)
        .execute()
      return runs.length
    })
    if (done < perStep) return
  }
}
