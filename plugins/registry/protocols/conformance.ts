import { setImmediate as breathe } from 'node:timers/promises'
import type { Fault } from '#core'
import { overList } from '../bulk.ts'
import { faultsOf, type Known } from '../graph/edges.ts'
import { relationshipOf } from '../entities/entity.ts'
import type { Protocols } from './protocols.ts'
import type { EdgeRow, RegistryDatabase } from '../tables.ts'

/** An entity that a newer version of its protocol would not take. */
export interface NonConforming {
  readonly did: string
  readonly protocol: { readonly did: string; readonly version: number }
  readonly faults: readonly Fault[]
}

/** How many entities an answer lists; the rest is counted. */
const listed = 1000
const pageSize = 500

/** Finds the entities of protocols that do not conform to their newest versions. They stay as they are. */
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

  /** The entities of these protocols that the newest versions would not take, up to a number, and how many they are. */
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
          const faults = faultsOf(checker, JSON.parse(row.properties), facing)
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
