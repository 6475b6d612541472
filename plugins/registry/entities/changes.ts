import type { Actor } from '../rights/actor.ts'
import type { creation } from './create.ts'
import type { PresentedCredentials } from '../credentials/presented.ts'
import { deactivation } from './deactivation.ts'
import type { Entities } from './entities.ts'
import type { Relationship } from './entity.ts'
import { groups } from './groups.ts'
import type { Quotas } from '../rights/allowance.ts'
import { patching } from './patching.ts'
import type { Protocols } from '../protocols/protocols.ts'
import { relating } from '../graph/relating.ts'
import type { RegistryDatabase } from '../tables.ts'
import { versions } from './versions.ts'
import type { Write } from '../writing.ts'

/** Changes of entities that are there, each in a transaction of its own. */
export function changes(
  db: RegistryDatabase,
  write: Write,
  entities: Entities,
  protocols: Protocols,
  creating: ReturnType<typeof creation>,
  presented: PresentedCredentials,
  quotas: Quotas,
) {
  const keeping = versions(db, entities)
  const patch = patching(db, entities, protocols, keeping, creating, presented, quotas)
  const deactivate = deactivation(entities, keeping)
  const { relate, unrelate } = relating(
    db,
    entities,
    protocols,
    keeping,
    deactivate,
    creating,
    quotas,
  )
  const addGroup = groups(entities, keeping, creating, quotas)

  return {
    async patch(
      actor: Actor,
      did: string,
      ifMatch: string,
      body: Readonly<Record<string, unknown>>,
    ) {
      const vetted = await patch.vet(actor, did, body)
      return write(actor, (writing) => patch.apply(writing, did, ifMatch, body, vetted))
    },

    relate: (actor: Actor, did: string, relationship: Relationship, ifMatch?: string) =>
      write(actor, (writing) => relate(writing, did, relationship, ifMatch)),

    unrelate: (actor: Actor, did: string, role: string, target: string, ifMatch?: string) =>
      write(actor, (writing) => unrelate(writing, did, role, target, ifMatch)),

    deactivate: (actor: Actor, did: string, ifMatch: string, withGroups: boolean) =>
      write(actor, async (writing) => {
        const row = await keeping.changeable(actor, did, ifMatch, writing.db)
        return (await deactivate(writing, row, withGroups)).row
      }),

    addGroup: (actor: Actor, did: string, controller: string | undefined) =>
      write(actor, (writing) => addGroup(writing, did, controller)),
  }
}
