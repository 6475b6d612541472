import { claimOf } from '../claims/claims.ts'
import type { Claim } from '../claims/claim.ts'
import { withClaimTables } from '../claims/tables.ts'
import type { Credential } from '../credentials/credential.ts'
import { entityOf, type Entity } from '../entities/entity.ts'
import type { Entities } from '../entities/entities.ts'
import type { Protocols } from '../protocols/protocols.ts'
import { claimsOf, credentialsOf, protocolsOf, type Reader } from '../rights/reader.ts'
import { seenAmong } from '../rights/seen-among.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Working } from './minting.ts'

/** What stands behind a credit, from the credit down to what was measured. */
export interface Provenance {
  readonly did: string
  readonly links: readonly {
    readonly credential: { readonly document: Credential; readonly revokedAt?: string }
    /** The claim with the readings, its evidence, and the verdict with its reasons. */
    readonly claim: Claim
    /** How the quantity came about, where the registry made the credit. */
    readonly working?: Working
    /** The rules or the agent's instructions by which the claim was evaluated, as they were. */
    readonly protocol?: {
      readonly did: string
      readonly version: number
      readonly evaluation?: unknown
    }
    readonly asset?: Omit<Entity, 'relationships'>
    /** What has an edge to the asset: the project that distributes it, for example. */
    readonly above: readonly {
      readonly did: string
      readonly type: string
      readonly role: string
    }[]
  }[]
}

const mostLinks = 100
const mostAbove = 50

/** Reads what stands behind a credit in one look. Whatever the reader may not see is left out. */
export class Provenances {
  readonly #db: RegistryDatabase
  readonly #entities: Entities
  readonly #protocols: Protocols

  constructor(db: RegistryDatabase, entities: Entities, protocols: Protocols) {
    this.#db = db
    this.#entities = entities
    this.#protocols = protocols
  }

  /** From a credit back to the readings. */
  async read(did: string, reader: Reader): Promise<Provenance> {
    await this.#entities.mustSee(did, reader)
    const db = withClaimTables(this.#db)
    const minted = await db
      .selectFrom('registry_mints')
      .innerJoin('registry_credentials', 'registry_credentials.id', 'registry_mints.credential')
      .innerJoin('registry_claims', 'registry_claims.id', 'registry_credentials.claim')
      .selectAll('registry_claims')
      .select(['registry_credentials.document', 'registry_credentials.revoked_at'])
      .where('registry_mints.entity', '=', did)
      .where(claimsOf(reader))
      .where(credentialsOf(reader))
      .orderBy('registry_claims.ordinal')
      .limit(mostLinks)
      .execute()
    const links = []
    for (const { document, revoked_at, ...row } of minted) {
      const protocol = await this.#protocolOf(row.protocol, row.protocol_version, reader)
      const asset = await this.#assetOf(row.subject, reader)
      links.push({
        credential: {
          document: JSON.parse(document) as Credential,
          ...(revoked_at !== null && { revokedAt: revoked_at }),
        },
        claim: claimOf(row),
        ...(row.credit_working !== null && { working: JSON.parse(row.credit_working) as Working }),
        ...(protocol && { protocol }),
        ...(asset && { asset }),
        above: asset ? await this.#above(row.subject, reader) : [],
      })
    }
    return { did, links }
  }

  async #protocolOf(did: string | null, version: number | null, reader: Reader) {
    if (did === null) return undefined
    const visible = await this.#db
      .selectFrom('registry_protocols')
      .select('did')
      .where('did', '=', did)
      .where(protocolsOf(reader))
      .executeTakeFirst()
    const checker = visible && (await this.#protocols.checker(did, version ?? 0))
    if (!checker) return { did, version: version ?? 0 }
    const { evaluation } = checker
    return { did, version: checker.version, ...(evaluation && { evaluation }) }
  }

  async #assetOf(did: string, reader: Reader) {
    if (!(await seenAmong(this.#db, 'entity', [did], reader)).has(did)) return undefined
    const row = await this.#entities.findRow(did)
    if (!row) return undefined
    const { relationships: _, ...asset } = entityOf(row, [])
    return asset
  }

  async #above(did: string, reader: Reader) {
    const rows = await this.#db
      .selectFrom('registry_edges')
      .innerJoin('registry_entities', 'registry_entities.did', 'registry_edges.source')
      .select(['registry_entities.did', 'registry_entities.type', 'registry_edges.role'])
      .where('registry_edges.target', '=', did)
      .orderBy('registry_entities.ordinal')
      .limit(mostAbove)
      .execute()
    const sources = rows.map((row) => row.did)
    const seen = await seenAmong(this.#db, 'entity', sources, reader)
    return rows.filter((row) => seen.has(row.did))
  }
}
