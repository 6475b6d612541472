import type { Database, Log, Oracle } from '#core'
import { creation } from './create.ts'
import { entities } from './entities.ts'
import { protocols } from './protocols.ts'
import { withRegistryTables } from './tables.ts'
import { writer } from './writing.ts'

export interface RegistryOptions {
  readonly db: Database
  readonly log: Log
  readonly oracle: Oracle
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
}

/** The registry and all its parts. It is loaded when it is first asked for something. */
export function registry({ db: untyped, oracle, organisational }: RegistryOptions) {
  const db = withRegistryTables(untyped)
  const write = writer(db, () => {})
  const kinds = protocols(db, write, oracle.did)
  const making = creation({ db, protocols: kinds, organisational, oracleDid: oracle.did })
  return {
    db,
    write,
    oracle,
    protocols: kinds,
    entities: entities(db, write, making),
  }
}
export type Registry = ReturnType<typeof registry>
