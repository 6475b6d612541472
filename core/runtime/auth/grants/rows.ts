import type { Kysely } from 'kysely'
import { prepared } from '../../store/prepared.ts'

/** The table of grants. */
export type GrantTables = {
  kernel_grants: {
    /** The CID of the delegation that the oracle's key signed. */
    id: string
    oracle_did: string
    did: string
    /** The abilities, sorted, as JSON. */
    capabilities: string
    car: string
    note: string | null
    /** 1 for a grant to somebody who tries things out on their own machine: it ends when the server serves others. */
    for_author: number
    /** Milliseconds since 1970; PostgreSQL returns a bigint as text. */
    created_at: number | string
    expires_at: number | string
    revoked_at: number | string | null
  }
}

/** One row of the table. */
export type GrantRow = GrantTables['kernel_grants']

/** More grants in force to one DID are refused. */
export const maxActive = 64

/** A grant that is asked for again is the one in force, unless the new one would last at least this much longer. */
const longerMs = 24 * 60 * 60_000

/** A grant as operators see it. */
export interface Grant {
  readonly id: string
  readonly did: string
  readonly capabilities: readonly string[]
  /** The DID that the capabilities are about: the oracle's. */
  readonly resource: string
  readonly note?: string
  readonly state: 'active' | 'expired' | 'revoked'
  readonly createdAt: string
  readonly expiresAt: string
  readonly revokedAt?: string
  /** The delegation, as the grantee can carry it or prove others with it. */
  readonly car: string
}

/** In older versions two requests at once could pass the limit together. */
const mostRead = maxActive * 2

/** The grants of an oracle to a DID that are in force at a time, the longest first. */
export function activeGrants(
  db: Kysely<GrantTables>,
  oracleDid: string,
  did: string,
  now: number,
): Promise<GrantRow[]> {
  return db
    .selectFrom('kernel_grants')
    .selectAll()
    .where('oracle_did', '=', oracleDid)
    .where('did', '=', did)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now)
    .orderBy('expires_at', 'desc')
    .limit(mostRead)
    .execute()
}

/** What decisions read of these grants. Compiled once, for each call of a tool reads them. */
export const grantsInForce = (db: Kysely<GrantTables>) =>
  prepared(db, (p: { readonly oracle: string; readonly did: string; readonly now: number }) =>
    db
      .selectFrom('kernel_grants')
      .select(['capabilities', 'expires_at'])
      .where('oracle_did', '=', p.oracle)
      .where('did', '=', p.did)
      .where('revoked_at', 'is', null)
      .where('expires_at', '>', p.now)
      .orderBy('expires_at', 'desc')
      .limit(mostRead),
  )

/** The grant in force of the same capabilities that lasts about until then. */
export function sameGrant(
  active: readonly GrantRow[],
  wanted: Pick<GrantRow, 'capabilities' | 'for_author'>,
  until: number,
): GrantRow | undefined {
  return active.find(
    ({ capabilities, for_author, expires_at }) =>
      capabilities === wanted.capabilities &&
      for_author === wanted.for_author &&
      Number(expires_at) > until - longerMs,
  )
}

/** A row as operators see it. */
export function grantOf(row: GrantRow, now: number): Grant {
  const { id, did, capabilities, note, car, revoked_at } = row
  const until = Number(row.expires_at)
  const iso = (ms: number | string) => new Date(Number(ms)).toISOString()
  return {
    id,
    did,
    capabilities: JSON.parse(capabilities), // written by `Grants.issue`
    resource: row.oracle_did,
    ...(note !== null && { note }),
    state: revoked_at !== null ? 'revoked' : now < until ? 'active' : 'expired',
    createdAt: iso(row.created_at),
    expiresAt: iso(until),
    ...(revoked_at !== null && { revokedAt: iso(revoked_at) }),
    car,
  }
}
