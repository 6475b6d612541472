import { createHash, createHmac } from 'node:crypto'
import { sql } from 'kysely'
import type { Database } from '../../plugin.ts'
import type { Signer } from '../auth/did/signer.ts'
import { isText } from './tables-of-users.ts'

/** What the key of the hashes is made of: a signature over these words, which only the oracle can make, and makes the same each time. */
const words = 'oracle-runtime: hashes of erased users, 1'
const didsPerPage = 1_000
/** The columns in which tables of the kernel name a user. */
const columns = ['did', 'user_did', 'who', 'caller']
const ofKernel = /^(kernel_|checkpoint)/

/** Makes the hash by which an erasure finds its user again. Without the oracle's key nobody can tell whose it is. */
export function didHasher(signer: Signer): (did: string) => string {
  const key = createHash('sha256')
    .update(signer.sign(Buffer.from(words)))
    .digest()
  return (did) => createHmac('sha256', key).update(did).digest('base64url')
}

/**
 * The DIDs in the database whose hashes these are. Of the kernel's tables the columns for users are read through, and of
 * all others, whose columns only their plugins know, every column of texts.
 */
export async function findDids(
  db: Database,
  hashOf: (did: string) => string,
  wanted: ReadonlySet<string>,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for (const table of await db.introspection.getTables())
    for (const { name } of table.columns.filter(({ name, dataType }) =>
      ofKernel.test(table.name) ? columns.includes(name) : isText(dataType),
    ))
      for (let last = ''; ;) {
        const column = sql.ref(name)
        const { rows } = await sql<{ did: string }>`select distinct ${column} as did
          from ${sql.table(table.name)} where ${column} > ${last} and ${column} like 'did:%' order by did
          limit ${sql.lit(didsPerPage)}`.execute(db)
        for (const { did } of rows) {
          const hash = hashOf(did)
          if (wanted.has(hash)) found.set(hash, did)
        }
        last = rows.at(-1)?.did ?? ''
        if (rows.length < didsPerPage) break
      }
  return found
}
