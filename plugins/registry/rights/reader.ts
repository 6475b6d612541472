import { sql, type RawBuilder } from 'kysely'
import { RuntimeError } from '#core'
import type { Calling } from './actor.ts'
import type { RegistryDatabase } from '../tables.ts'

/** Whose eyes read: those of a DID, which see what is its own and what names it; without one everything. */
export interface Reader {
  readonly did: string | undefined
}
/** A reader who sees everything. */
export const everything: Reader = { did: undefined }

type Condition = RawBuilder<boolean>
const always = sql<boolean>`1 = 1`

/** PostgreSQL wants to know what a parameter is where it stands in a list of results. */
const text = (did: unknown) => sql`cast(${did} as text)`

/** The ids that are a DID's own: itself, and the entities that it controls. */
const own = (did: unknown) =>
  sql`(select ${text(did)} union all select mine.did from registry_entities as mine where mine.controller = ${did})`

/** The ids of all entities that a DID sees: its own, those in their hands, and those that relate to any of them. */
export const seen = (did: unknown) => sql`(
  select mine.did from registry_entities as mine where mine.controller = ${did} or mine.did = ${did}
  union select held.did from registry_entities as held where held.controller in ${own(did)}
  union select pointing.source from registry_edges as pointing where pointing.target in ${own(did)})`

/** Which rows of `registry_entities` somebody sees. */
export const entitiesOf = ({ did }: { did: unknown }): Condition =>
  did === undefined ? always : sql<boolean>`registry_entities.did in ${seen(did)}`

/** Claims that the reader made, of the reader's assets, or that the reader's oracles evaluated. */
export const claimsOf = ({ did }: Reader): Condition =>
  did === undefined
    ? always
    : sql<boolean>`(registry_claims.submitter in ${own(did)} or registry_claims.subject in ${own(did)} or registry_claims.oracle in ${own(did)})`

/** Credentials of the reader's assets, of the reader's oracles, or of claims that the reader made. */
export const credentialsOf = ({ did }: Reader): Condition =>
  did === undefined
    ? always
    : sql<boolean>`(registry_credentials.subject in ${own(did)} or registry_credentials.oracle in ${own(did)}
      or registry_credentials.claim in (select made.id from registry_claims as made where made.submitter = ${did}))`

/** Protocols of the reader, and those that the reader's entities follow. */
export const protocolsOf = ({ did }: Reader, table = 'registry_protocols'): Condition =>
  did === undefined
    ? always
    : sql<boolean>`(${sql.ref(`${table}.controller`)} = ${did} or ${sql.ref(`${table}.did`)} in (
        select mine.protocol from registry_entities as mine where mine.controller = ${did}))`

const ability = 'registry/read'

/** Who reads with whose eyes. */
export class Readers {
  readonly #db: RegistryDatabase
  readonly #oracleDid: string
  readonly #isPublic: boolean

  constructor(db: RegistryDatabase, oracleDid: string, isPublic: boolean) {
    this.#db = db
    this.#oracleDid = oracleDid
    this.#isPublic = isPublic
  }

  /** Whether anything here is the DID's own, or names it. */
  async #hasOwn(did: string): Promise<boolean> {
    const { rows } = await sql<{ found: unknown }>`select 1 as found where
      exists (select 1 from registry_entities as mine where mine.controller = ${did} or mine.did = ${did})
      or exists (select 1 from registry_edges where target = ${did})
      or exists (select 1 from registry_claims where submitter = ${did})
      or exists (select 1 from registry_protocols where controller = ${did})`.execute(this.#db)
    return rows.length > 0
  }

  /** Who reads what is not theirs to see finds nothing there. */
  of({ user }: Calling): Reader {
    const seesAll = !user || this.#isPublic || user.can(ability, this.#oracleDid)
    return seesAll ? everything : { did: user.did }
  }

  /** Whether the caller sees anything at all: with a grant everything, without one what is theirs. */
  async hasAny(calling: Calling): Promise<boolean> {
    const { did } = this.of(calling)
    return did === undefined || (await this.#hasOwn(did))
  }

  /** The reader of a stream that goes on: whoever sees nothing any more is told so, and the stream ends. */
  async still(calling: Calling): Promise<Reader> {
    if (await this.hasAny(calling)) return this.of(calling)
    throw new RuntimeError('NOT_GRANTED', `Reading on needs "${ability}" on ${this.#oracleDid}.`, {
      hint: 'The operator of the oracle grants it: npm run grant.',
      details: { ability, resource: this.#oracleDid },
    })
  }
}
