import { giveWay, RuntimeError } from '#core'
import { bulkInsert, overList } from '../bulk.ts'
import { none, type PresentedCredentials, type Vetted } from '../credentials/presented.ts'
import type { Indexes } from '../indexes/indexes.ts'
import type { Known } from '../graph/edges.ts'
import type { Protocols } from '../protocols/protocols.ts'
import type { EntityRequest } from '../request.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from '../tables.ts'
import type { Writing } from '../writing.ts'
import { groupId } from './kinds.ts'
import { defaultGroup, Making } from './making.ts'

/** The outcome of one request: the entity, or the error that refused the request. */
export type Outcome =
  | { readonly row: EntityRow; readonly edges: readonly EdgeRow[]; readonly error?: undefined }
  | { readonly row?: undefined; readonly error: RuntimeError }

/** A request with its checked credentials, or with the error that refuses these credentials. */
export interface Asked {
  readonly request: EntityRequest
  readonly vetted: Vetted | RuntimeError
}

/** What `Creation` needs to make entities. */
export interface CreationParts {
  readonly db: RegistryDatabase
  readonly presented: PresentedCredentials
  readonly quotas: Quotas
  readonly protocols: Protocols
  readonly indexes: Indexes
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
  readonly oracleDid: string
}

/** Makes entities, any number in one transaction. */
export class Creation {
  readonly #parts: CreationParts
  readonly #protocolsOf
  /** Reads which of some ids are entities, with the columns that a check of an edge needs. */
  readonly entitiesOf
  /** Inserts rows into `registry_entities`. */
  readonly insertEntities
  /** Inserts rows into `registry_edges`. */
  readonly insertEdges
  /** Inserts rows into `registry_mints`. */
  readonly insertMints

  constructor(parts: CreationParts) {
    const { db } = parts
    this.#parts = parts
    this.#protocolsOf = overList<{ did: string }>(db, (dids) =>
      db.selectFrom('registry_protocols').select('did').where('did', 'in', dids),
    )
    this.entitiesOf = overList<Known>(db, (dids) =>
      db
        .selectFrom('registry_entities')
        .select(['did', 'type', 'class', 'status', 'controller'])
        .where('did', 'in', dids),
    )
    this.insertEntities = bulkInsert(db, 'registry_entities', entityColumns)
    this.insertEdges = bulkInsert(db, 'registry_edges', edgeColumns)
    this.insertMints = bulkInsert(db, 'registry_mints', ['credential', 'entity', 'at'])
  }

  /** Checks the credentials of the requests before the transaction, because a resolver may answer slowly. */
  async vet(requests: readonly EntityRequest[]): Promise<Asked[]> {
    const asked: Asked[] = []
    for (const request of requests)
      asked.push({
        request,
        vetted: request.verifiableCredential
          ? await this.#parts.presented.vet(request.verifiableCredential).catch(asOutcome)
          : none,
      })
    return asked
  }

  /**
   * Creates an entity for each valid request. With `together` the requests may name each other in any order; the caller
   * then has to end the transaction with an error if any of the outcomes is an error.
   */
  async createAll(writing: Writing, all: readonly Asked[], together = false): Promise<Outcome[]> {
    const { db: trx } = writing
    const { known, taken } = await this.#lookUp(all, trx)
    const allowance = await Allowance.open(writing, this.#parts.quotas)
    const making = new Making(this.#parts, writing, allowance, known, taken)
    if (together) for (const { request } of all) await making.promise(request)
    const outcomes: Outcome[] = []
    for (const asked of all) {
      await giveWay()
      try {
        outcomes.push(await making.make(asked))
      } catch (error) {
        outcomes.push({ error: asOutcome(error) })
      }
    }
    await this.insertEntities(making.rows, trx)
    await this.#parts.indexes.add(making.rows, trx)
    await this.insertEdges(making.edges, trx)
    await this.insertMints(making.mints, trx)
    await allowance.keep()
    return outcomes
  }

  /** Reads the entities that the requests name, and the ids that protocols have taken, before the first request is carried out. */
  async #lookUp(all: readonly Asked[], on: RegistryDatabase) {
    const named = new Set<string>()
    const wanted = new Set<string>()
    for (const { request } of all) {
      const { did, relationships, groups = [defaultGroup] } = request
      if (did !== undefined) wanted.add(did)
      if (did !== undefined) for (const group of groups) named.add(groupId(did, group))
      for (const { target } of relationships ?? []) named.add(target)
    }
    const known = new Map<string, Known>()
    for (const row of await this.entitiesOf([...new Set([...named, ...wanted])], on))
      known.set(row.did, row)
    const taken = new Set((await this.#protocolsOf([...wanted], on)).map(({ did }) => did))
    return { known, taken }
  }
}

/** Returns a refusal as the outcome of one request; throws any other error, which ends the whole transaction. */
function asOutcome(error: unknown): RuntimeError {
  if (error instanceof RuntimeError) return error
  throw error
}

const entityColumns = [
  'did',
  'ordinal',
  'type',
  'class',
  'controller',
  'protocol',
  'protocol_version',
  'status',
  'version',
  'created_at',
  'updated_at',
  'properties',
  'details',
  'search',
  'edges_made',
] as const

const edgeColumns = [
  'source',
  'role',
  'target',
  'position',
  'properties',
  'drawn_by',
  'by_operator',
  'confirmed_by',
] as const
