import { sql } from 'kysely'
import type { ErasedData, Migration } from '../../plugin.ts'

/** What one part of the app, a plugin or the kernel, has erased. */
export type ErasedParts = Readonly<Record<string, ErasedData>>

/** An erasure. A type and no interface, because only a type satisfies Kysely's index signature. */
export type ErasureRow = {
  id: string
  /** The HMAC of the DID, keyed by the oracle's key: it finds the user again in an older backup, and names nobody else. */
  hash: string
  /** The DID, until everything of it is erased. */
  did: string | null
  state: 'running' | 'done'
  /** JSON of `ErasedParts`: what is done already. */
  parts: string
  /** Why a part failed last, by its name, as JSON. */
  faults: string
  tries: number
  /** When the parts that failed are called again. */
  due_at: number
  /** The process that carries the erasure, for as long as `lease_until` says. */
  owner: string | null
  lease_until: number
  created_at: number
  ended_at: number | null
}

/** The table of erasures, by its name. */
export type ErasureTables = { kernel_erasures: ErasureRow }

/** Makes the table of erasures. */
export const erasuresMigration: Migration = async (db) => {
  await sql`create table kernel_erasures (
    id text primary key, hash text not null, did text, state text not null, parts text not null,
    faults text not null, tries integer not null, due_at bigint not null, owner text,
    lease_until bigint not null, created_at bigint not null, ended_at bigint)`.execute(db)
  // A user has one erasure at a time: a second request finds the first.
  await sql`create unique index kernel_erasures_open on kernel_erasures (did)
    where state = 'running'`.execute(db)
}
