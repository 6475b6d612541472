import type { Database, Oracle } from '#core'
import type { Actor } from './actor.ts'
import { batches } from './batch.ts'
import { changes } from './changes.ts'
import { conformance } from './conformance.ts'
import { claims } from './claims/claims.ts'
import { creation } from './create.ts'
import { credentials } from './credentials/credentials.ts'
import { entities } from './entities.ts'
import { feed } from './feed.ts'
import { groupType } from './kinds.ts'
import { lists } from './lists.ts'
import { protocolChanges } from './protocol-changes.ts'
import { protocols } from './protocols.ts'
import { invalid } from './refusal.ts'
import type { EntityRequest } from './request.ts'
import { resolution } from './resolution/resolution.ts'
import { withRegistryTables } from './tables.ts'
import { traversal } from './traverse.ts'
import { writer } from './writing.ts'

export interface RegistryOptions {
  readonly db: Database
  readonly oracle: Oracle
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
}

/** The registry and all its parts. It is loaded when it is first asked for something. */
export function registry({ db: untyped, oracle, organisational }: RegistryOptions) {
  const db = withRegistryTables(untyped)
  const events = feed(db)
  const write = writer(db, events.announce)
  const kinds = protocols(db)
  const making = creation({ db, protocols: kinds, organisational, oracleDid: oracle.did })
  const twins = entities(db, write, making)
  const changing = changes(db, write, twins, kinds, making)

  return {
    db,
    write,
    oracle,
    events,
    protocols: {
      ...kinds,
      ...protocolChanges(write, kinds, oracle.did),
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
    claims: claims({ db, write, oracle, protocols: kinds }),
    credentials: credentials({ db, write, oracle }),
    resolve: resolution(db),
  }
}
export type Registry = ReturnType<typeof registry>
