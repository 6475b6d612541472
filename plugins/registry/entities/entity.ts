import type { TwinClass } from './kinds.ts'
import type { EdgeRow, EntityRow, StateColumns } from '../tables.ts'

/** A service of an entity, as DID documents have it. */
export interface Service {
  /** In fragment form: `#api`. */
  readonly id: string
  readonly type: string
  readonly endpoint: string
}

/** A credential that an entity presents. */
export interface EmbeddedCredential {
  readonly type: string | readonly string[]
  readonly issuer: string
  readonly [field: string]: unknown
}

/** An edge as the entity that it starts from lists it. */
export interface Relationship {
  readonly role: string
  readonly target: string
  readonly properties?: Readonly<Record<string, unknown>>
}

/** An entity as it goes over the wire. */
export interface Entity {
  readonly did: string
  readonly type: string
  readonly class?: TwinClass
  readonly controller: string
  /** The protocol, and the version of it that the entity was checked against. */
  readonly protocol?: { readonly did: string; readonly version: number }
  readonly properties: Readonly<Record<string, unknown>>
  readonly services: readonly Service[]
  readonly verifiableCredential: readonly EmbeddedCredential[]
  readonly relationships: readonly Relationship[]
  readonly status: 'active' | 'deactivated'
  readonly version: number
  readonly createdAt: string
  readonly updatedAt: string
}

/** What of an entity is kept as JSON beside its properties. */
export interface Details {
  readonly services?: readonly Service[]
  readonly verifiableCredential?: readonly EmbeddedCredential[]
  /** Every proof in the credentials held when they were stored. Without it nobody has looked. */
  readonly checked?: true
}

/** The details in a row. */
export const readDetails = ({ details }: Pick<StateColumns, 'details'>): Details =>
  details === null ? {} : JSON.parse(details)

/** What stands at a credential that nobody has proven here. */
export const unverified = 'unverified'
/** A credential without a proof, marked as such. */
export const marked = (credential: EmbeddedCredential): EmbeddedCredential => ({
  ...credential,
  status: unverified,
})

/** What a change of an entity keeps of it. */
export function stateOf(
  row: StateColumns,
): Pick<Entity, 'controller' | 'protocol' | 'properties' | 'services' | 'verifiableCredential'> {
  const { services = [], verifiableCredential = [], checked } = readDetails(row)
  return {
    controller: row.controller,
    ...(row.protocol !== null && {
      protocol: { did: row.protocol, version: row.protocol_version ?? 0 },
    }),
    properties: JSON.parse(row.properties),
    services,
    verifiableCredential: checked ? verifiableCredential : verifiableCredential.map(marked),
  }
}

/** The columns of services and credentials; null when there are none. */
export const detailsOf = (
  services: readonly Service[] = [],
  verifiableCredential: readonly EmbeddedCredential[] = [],
  checked = true,
): string | null =>
  services.length + verifiableCredential.length === 0
    ? null
    : JSON.stringify({ services, verifiableCredential, ...(checked && { checked }) })

/** An entity as it goes over the wire. */
export function entityOf(row: EntityRow, edges: readonly EdgeRow[]): Entity {
  return {
    did: row.did,
    type: row.type,
    ...(row.class !== null && { class: row.class as TwinClass }), // only classes are written there
    ...stateOf(row),
    relationships: edges.map(relationshipOf),
    status: row.status,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** An edge of a row as it goes over the wire. */
export const relationshipOf = ({ role, target, properties }: EdgeRow): Relationship => ({
  role,
  target,
  ...(properties !== null && { properties: JSON.parse(properties) }),
})

/** What is told of an entity that was deactivated. */
export const tombstoneOf = (row: EntityRow) => ({
  did: row.did,
  type: row.type,
  controller: row.controller,
  status: row.status,
  version: row.version,
  createdAt: row.created_at,
  deactivatedAt: row.updated_at,
})
