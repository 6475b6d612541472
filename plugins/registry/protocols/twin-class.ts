import type { Fault } from '#core'
import { conflicting, refused } from '../refusal.ts'
import type { RegistryDatabase } from '../tables.ts'
import { unknown } from './conform.ts'
import type { Effective } from './definition.ts'

/** Refuses `identifiedBy` of what is no protocol of physical twins, or of properties that the protocol does not have. */
export function checkIdentity({ class: twin, identifiedBy, properties }: Effective): void {
  if (!identifiedBy) return
  const faults: Fault[] = []
  if (twin !== 'physical-twin')
    faults.push({
      path: 'identifiedBy',
      message: 'only a protocol of the class physical-twin has it',
    })
  for (const [at, name] of identifiedBy.entries())
    if (!Object.hasOwn(properties, name))
      faults.push(unknown(`identifiedBy.${at}`, name, 'property', Object.keys(properties)))
  if (faults.length > 0) throw refused(faults)
}

/** Refuses a class for a protocol while entities of another class follow it: the class of an entity never changes. */
export async function mustFitClass(
  did: string,
  { class: twin }: Effective,
  on: RegistryDatabase,
): Promise<void> {
  if (twin === undefined) return
  const other = await on
    .selectFrom('registry_entities')
    .select(['did', 'class'])
    .where('protocol', '=', did)
    .where('status', '=', 'active')
    .where((is) => is.or([is('class', 'is', null), is('class', '!=', twin)]))
    .limit(1)
    .executeTakeFirst()
  if (!other) return
  const present = other.class === null ? 'of no class' : `a ${other.class}`
  throw conflicting(
    `${other.did} follows ${did} and is ${present}, so ${did} cannot be of the class ${twin}.`,
    'Make another protocol with this class.',
    { path: 'class', did: other.did },
  )
}
