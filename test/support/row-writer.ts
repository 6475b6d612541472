import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { silent } from './silent-log.ts'

/** Inserts rows without end and prints each number once it is committed: `row-writer.ts <path>`. */
const dataDir = await openDataDir(process.argv[2] ?? '')
const store = await openStore({ dataDir, log: silent })
const db = store.db.withTables<{ rows: { id: number; body: string } }>()
for (let id = 1; ; id++) {
  if (id % 3 === 0)
    await db.transaction().execute(async (trx) => {
      await trx
        .insertInto('rows')
        .values({ id, body: 'x'.repeat(id % 5000) })
        .execute()
      await trx.insertInto('rows').values({ id: -id, body: 'its pair' }).execute()
    })
  else
    await db
      .insertInto('rows')
      .values({ id, body: 'x'.repeat(id % 5000) })
      .execute()
  process.stdout.write(`${id}\n`)
  if (id % 7 === 0) await new Promise((resolve) => setImmediate(resolve))
}
