import { withClaimTables } from '../claims/tables.ts'
import type { RegistryDatabase } from '../tables.ts'
import { claimsOf, credentialsOf, entitiesOf, protocolsOf, type Reader } from './reader.ts'

/** How many ids one query asks for. */
const atOnce = 200

/** The kind of the thing that a change is about, as the column `kind` of `registry_changes` has it. */
export type Kind = 'entity' | 'protocol' | 'claim' | 'credential'

/** The ids, among the given ones, of the things that a reader sees. */
export async function seenAmong(
  db: RegistryDatabase,
  kind: Kind,
  ids: readonly string[],
  reader: Reader,
): Promise<Set<string>> {
  const unique = [...new Set(ids)]
  if (reader.did === undefined) return new Set(unique)
  const seen = new Set<string>()
  for (let from = 0; from < unique.length; from += atOnce)
    for (const id of await queries[kind](db, unique.slice(from, from + atOnce), reader))
      seen.add(id)
  return seen
}

type Query = (db: RegistryDatabase, ids: readonly string[], reader: Reader) => Promise<string[]>

const queries: Record<Kind, Query> = {
  async entity(db, ids, reader) {
    const query = db.selectFrom('registry_entities').select('did').where('did', 'in', ids)
    return (await query.where(entitiesOf(reader)).execute()).map(({ did }) => did)
  },
  async protocol(db, ids, reader) {
    const query = db.selectFrom('registry_protocols').select('did').where('did', 'in', ids)
    return (await query.where(protocolsOf(reader)).execute()).map(({ did }) => did)
  },
  async claim(db, ids, reader) {
    const query = withClaimTables(db).selectFrom('registry_claims').select('id')
    const rows = await query.where('id', 'in', ids).where(claimsOf(reader)).execute()
    return rows.map(({ id }) => id)
  },
  async credential(db, ids, reader) {
    const query = withClaimTables(db).selectFrom('registry_credentials').select('id')
    const rows = await query.where('id', 'in', ids).where(credentialsOf(reader)).execute()
    return rows.map(({ id }) => id)
  },
}
