import type { Database, Oracle } from '#core'
import { actorOf, type Actor, type Calling } from './rights/actor.ts'
import { batches } from './entities/batch.ts'
import { changes } from './entities/changes.ts'
import { conformance } from './protocols/conformance.ts'
import { claims } from './claims/claims.ts'
import { creation } from './entities/create.ts'
import { credentials } from './credentials/credentials.ts'
import { presented } from './credentials/presented.ts'
import { entities } from './entities/entities.ts'
import { feed } from './reading/feed.ts'
import { groupType } from './entities/kinds.ts'
import { lists } from './reading/lists.ts'
import { protocolChanges } from './protocols/changes.ts'
import { protocols } from './protocols/protocols.ts'
import { invalid } from './refusal.ts'
import type { EntityRequest } from './request.ts'
import type { Quotas } from './rights/allowance.ts'
import { readers } from './rights/reader.ts'
import { resolution } from './resolution/resolution.ts'
import { withRegistryTables } from './tables.ts'
import { traversal } from './graph/traverse.ts'
import { writer } from './writing.ts'

export interface RegistryOptions {
  readonly db: Database
  readonly oracle: Oracle
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
  readonly quotas: Quotas
  /** Everybody who may call reads everything; else each what is theirs, or what a grant opens. */
  readonly isPublic: boolean
}

/** The registry and all its parts. It is loaded when it is first asked for something. */
export function registry({
  db: untyped,
  oracle,
  organisational,
  quotas,
  isPublic,
}: RegistryOptions) {
  const db = withRegistryTables(untyped)
  const events = feed(db)
  const write = writer(db, events.announce)
  const kinds = protocols(db)
  const proofs = presented(db, oracle)
  const making = creation({
    db,
    presented: proofs,
    quotas,
    protocols: kinds,
    organisational,
    oracleDid: oracle.did,
  })
  const twins = entities(db, write, making)
  const changing = changes(db, write, twins, kinds, making, proofs, quotas)

  return {
    db,
    write,
    oracle,
    events,
    actorOf: (calling: Calling) => actorOf(calling, oracle.did),
    readers: readers(db, oracle.did, isPublic),
    protocols: {
      ...kinds,
      ...protocolChanges(write, kinds, oracle.did, quotas),
      nonConforming: conformance(db, kinds),
    },
    entities: {
      ...twins,
      ...changing,
      ...lists(db, twins),
      traverse: traversal(db, twins),

      /** Creates an entity; a membership group joins the organisation that its id names. */
      create(actor: Actor, request: EntityRequest) {
        if (request.type !== groupType) return twins.create(actor, request)
        if (request.did === undefined)
          throw invalid('did', 'missing; the id of a group is "<organisation>:group:<name>"')
        return changing.addGroup(actor, request.did, request.controller)
      },
    },
    batches: batches(write, making),
    claims: claims({ db, write, oracle, protocols: kinds, quotas }),
    credentials: credentials({ db, write, oracle }),
    resolve: resolution(db, oracle),
  }
}
export type Registry = ReturnType<typeof registry>
