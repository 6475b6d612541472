import type { PresentedCredentials } from '../credentials/presented.ts'
import type { Indexes } from '../indexes/indexes.ts'
import { Relating } from '../graph/relating.ts'
import type { Protocols } from '../protocols/protocols.ts'
import { invalid } from '../refusal.ts'
import type { EntityRequest } from '../request.ts'
import type { Actor } from '../rights/actor.ts'
import type { Quotas } from '../rights/allowance.ts'
import type { EntityRow, RegistryDatabase } from '../tables.ts'
import type { Write } from '../writing.ts'
import type { Creation } from './creation.ts'
import { Deactivation } from './deactivation.ts'
import type { Entities } from './entities.ts'
import { entityOf, type Entity, type Relationship } from './entity.ts'
import { addGroup, type GroupingParts } from './grouping.ts'
import { groupType } from './kinds.ts'
import { Patching } from './patching.ts'
import { Versions } from './versions.ts'

/** What `Changes` needs to change entities. */
export interface ChangesParts {
  readonly db: RegistryDatabase
  readonly write: Write
  readonly entities: Entities
  readonly protocols: Protocols
  readonly indexes: Indexes
  readonly creation: Creation
  readonly presented: PresentedCredentials
  readonly quotas: Quotas
}

/** Changes of entities, each in a transaction of its own. */
export class Changes {
  readonly #write: Write
  readonly #creation: Creation
  readonly #grouping: GroupingParts
  readonly #versions: Versions
  readonly #patching: Patching
  readonly #deactivation: Deactivation
  readonly #relating: Relating

  constructor(parts: ChangesParts) {
    const { db, write, entities, protocols, indexes, creation, presented, quotas } = parts
    const versions = new Versions(db, entities, indexes)
    const deactivation = new Deactivation(entities, versions)
    const shared = { entities, protocols, versions, creation, quotas }
    this.#write = write
    this.#creation = creation
    this.#versions = versions
    this.#deactivation = deactivation
    this.#grouping = shared
    this.#patching = new Patching({ ...shared, presented })
    this.#relating = new Relating(db, { ...shared, deactivation })
  }

  /** Creates an entity; a membership group joins the organisation that its id names. */
  async create(actor: Actor, request: EntityRequest): Promise<Entity> {
    const { type, did, controller } = request
    if (type === groupType) {
      if (did === undefined)
        throw invalid('did', 'missing; the id of a group is "<organisation>:group:<name>"')
      return this.#write(actor, (writing) => addGroup(this.#grouping, writing, did, controller))
    }
    const asked = await this.#creation.vet([request])
    return this.#write(actor, async (writing) => {
      const [outcome] = await this.#creation.createAll(writing, asked)
      if (!outcome?.row) throw outcome?.error
      return entityOf(outcome.row, outcome.edges)
    })
  }

  /** Changes an entity by a JSON merge patch. */
  async patch(
    actor: Actor,
    did: string,
    ifMatch: string,
    body: Readonly<Record<string, unknown>>,
  ): Promise<Entity> {
    const vetted = await this.#patching.vet(actor, did, body)
    return this.#write(actor, (writing) =>
      this.#patching.apply(writing, did, ifMatch, body, vetted),
    )
  }

  /** Draws an edge, changes its properties, or confirms it as it is. */
  relate(actor: Actor, did: string, relationship: Relationship, ifMatch?: string) {
    return this.#write(actor, (writing) =>
      this.#relating.relate(writing, did, relationship, ifMatch),
    )
  }

  /** Removes an edge. */
  unrelate(actor: Actor, did: string, role: string, target: string, ifMatch?: string) {
    return this.#write(actor, (writing) =>
      this.#relating.unrelate(writing, did, role, target, ifMatch),
    )
  }

  /** Deactivates an entity on which nothing depends; `withGroups` deactivates its membership groups too. */
  deactivate(actor: Actor, did: string, ifMatch: string, withGroups: boolean): Promise<EntityRow> {
    return this.#write(actor, async (writing) => {
      const row = await this.#versions.changeable(actor, did, ifMatch, writing.db)
      return (await this.#deactivation.deactivate(writing, row, withGroups)).row
    })
  }
}
