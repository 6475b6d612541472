import { sql, type RawBuilder } from 'kysely'
import { RuntimeError } from '#core'
import type { Calling } from './actor.ts'
import type { RegistryDatabase } from '../tables.ts'

/** For whom a query reads: a DID sees what is its own and what names it; a reader without a DID sees everything. */
export interface Reader {
  readonly did: string | undefined
}
/** A reader who sees everything. */
export const everything: Reader = { did: undefined }

type Condition = RawBuilder<boolean>
const always = sql<boolean>`1 = 1`

/** A parameter with a cast, because PostgreSQL cannot infer the type of a parameter in a list of results. */
const text = (did: unknown) => sql`cast(${did} as text)`

/** The ids that are a DID's own: itself, and the entities that it controls. */
const own = (did: unknown) =>
  sql`(select ${text(did)} union all select mine.did from registry_entities as mine where mine.controller = ${did})`

/** The ids of all entities that a DID sees: its own, those that its own control, and those with an edge to any of its own. */
export const seen = (did: unknown) => sql`(
  select mine.did from registry_entities as mine where mine.controller = ${did} or mine.did = ${did}
  union select held.did from registry_entities as held where held.controller in ${own(did)}
  union select pointing.source from registry_edges as pointing where pointing.target in ${own(did)})`

/** The condition for the rows of `registry_entities` that a reader sees. */
export const entitiesOf = ({ did }: { did: unknown }): Condition =>
  did === undefined ? always : sql<boolean>`registry_entities.did in ${seen(did)}`

/** The condition for claims that the reader made, that are about the reader's assets, or that the reader's oracles evaluated. */
export const claimsOf = ({ did }: Reader): Condition =>
  did === undefined
    ? always
    : sql<boolean>`(registry_claims.submitter in ${own(did)}
        or registry_claims.subject in ${own(did)}
        or registry_claims.oracle in ${own(did)})`

/** The condition for credentials of the reader's assets, of the reader's oracles, or of claims that the reader made. */
export const credentialsOf = ({ did }: Reader): Condition =>
  did === undefined
    ? always
    : sql<boolean>`(registry_credentials.subject in ${own(did)} or registry_credentials.oracle in ${own(did)}
      or registry_credentials.claim in (select made.id from registry_claims as made where made.submitter = ${did}))`

/** The condition for protocols that the reader controls, or that the reader's entities follow. */
export const protocolsOf = ({ did }: Reader, table = 'registry_protocols'): Condition =>
  did === undefined
    ? always
    : sql<boolean>`(${sql.ref(`${table}.controller`)} = ${did} or ${sql.ref(`${table}.did`)} in (
        select mine.protocol from registry_entities as mine where mine.controller = ${did}))`

const ability = 'registry/read'

/** Finds the reader for each call: the caller's DID, or a reader who sees everything. */
export class Readers {
  readonly #db: RegistryDatabase
  readonly #oracleDid: string
  readonly #isPublic: boolean

  constructor(db: RegistryDatabase, oracleDid: string, isPublic: boolean) {
    this.#db = db
    this.#oracleDid = oracleDid
    this.#isPublic = isPublic
  }

  /** Whether anything in the registry is the DID's own, or names the DID. */
  async #hasOwn(did: string): Promise<boolean> {
    const { rows } = await sql<{ found: unknown }>`select 1 as found where
      exists (select 1 from registry_entities as mine where mine.controller = ${did} or mine.did = ${did})
      or exists (select 1 from registry_edges where target = ${did})
      or exists (select 1 from registry_claims where submitter = ${did})
      or exists (select 1 from registry_protocols where controller = ${did})`.execute(this.#db)
    return rows.length > 0
  }

  /** The reader of a call: everything with an API key, a grant or public reading; else what the caller's DID sees. */
  of({ user, origin }: Calling & { readonly origin?: string | undefined }): Reader {
    // A turn that this plugin started evaluates a claim for the operator. Nobody else starts one with this origin.
    const isEvaluating = origin === 'registry' && user?.did === this.#oracleDid
    const seesAll = !user || isEvaluating || this.#isPublic || user.can(ability, this.#oracleDid)
    return seesAll ? everything : { did: user.did }
  }

  /** Whether the caller sees anything at all: with a grant everything, without a grant what is the caller's own. */
  async hasAny(calling: Calling): Promise<boolean> {
    const { did } = this.of(calling)
    return did === undefined || (await this.#hasOwn(did))
  }

  /** The reader of an open stream; throws when the caller sees nothing any more, which ends the stream. */
  async still(calling: Calling): Promise<Reader> {
    if (await this.hasAny(calling)) return this.of(calling)
    throw new RuntimeError('NOT_GRANTED', `Reading on needs "${ability}" on ${this.#oracleDid}.`, {
      hint: 'The operator of the oracle grants it: npm run grant.',
      details: { ability, resource: this.#oracleDid },
    })
  }
}
