import { setImmediate as breathe } from 'node:timers/promises'
import type { Fault } from '#core'
import { overList } from '../bulk.ts'
import { faultsAgainst, type Known } from '../graph/edges.ts'
import { relationshipOf } from '../entities/entity.ts'
import type { Protocols } from './protocols.ts'
import type { EdgeRow, RegistryDatabase } from '../tables.ts'

/** An entity that does not conform to the newest version of its protocol. */
export interface NonConforming {
  readonly did: string
  readonly protocol: { readonly did: string; readonly version: number }
  readonly faults: readonly Fault[]
}

/** How many entities an answer lists at most; the answer counts all of them. */
const listed = 1000
const pageSize = 500

/** Finds the entities that do not conform to the newest versions of their protocols, and changes none of these entities. */
export class Conformance {
  readonly #db: RegistryDatabase
  readonly #protocols: Protocols
  readonly #edgesFrom

  constructor(db: RegistryDatabase, protocols: Protocols) {
    this.#db = db
    this.#protocols = protocols
    this.#edgesFrom = overList<EdgeRow & Pick<Known, 'type' | 'class' | 'status'>>(db, (dids) =>
      db
        .selectFrom('registry_edges as edge')
        .innerJoin('registry_entities as entity', 'entity.did', 'edge.target')
        .selectAll('edge')
        .select(['entity.type', 'entity.class', 'entity.status'])
        .where('edge.source', 'in', dids)
        .orderBy('edge.position'),
    )
  }

  /** The entities of these protocols that do not conform to the newest versions, up to `listed` of them, and the count of all. */
  async check(dids: readonly string[]) {
    const nonConforming: NonConforming[] = []
    let total = 0
    for (const did of dids) {
      const checker = await this.#protocols.newest(did)
      if (!checker) continue
      for (let after = 0; ;) {
        const rows = await this.#db
          .selectFrom('registry_entities')
          .select(['did', 'ordinal', 'protocol_version', 'properties', 'edges_made'])
          .where('protocol', '=', did)
          .where('status', '=', 'active')
          .where('ordinal', '>', after)
          .orderBy('ordinal')
          .limit(pageSize)
          .execute()
        const sources = rows.flatMap((row) => (row.edges_made > 0 ? [row.did] : []))
        const edges = Map.groupBy(await this.#edgesFrom(sources), ({ source }) => source)
        for (const row of rows) {
          const own = edges.get(row.did) ?? []
          const facing = own.map((edge) => ({ relationship: relationshipOf(edge), entity: edge }))
          const faults = faultsAgainst(checker, JSON.parse(row.properties), facing)
          if (faults.length === 0) continue
          total++
          if (nonConforming.length < listed)
            nonConforming.push({
              did: row.did,
              protocol: { did, version: row.protocol_version ?? 0 },
              faults,
            })
        }
        if (rows.length < pageSize) break
        after = rows.at(-1)!.ordinal
        await breathe()
      }
    }
    return { nonConforming, nonConformingTotal: total }
  }
}
