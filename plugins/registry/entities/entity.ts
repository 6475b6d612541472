import type { TwinClass } from './kinds.ts'
import type { EdgeRow, EntityRow, StateColumns } from '../tables.ts'

/** A service of an entity, as DID documents have it. */
export interface Service {
  /** The id of the service in fragment form, such as `#api`. */
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

/** An edge as its source entity lists it. */
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
  /** The protocol, and the version of the protocol that the registry checked the entity against. */
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

/** The services and credentials of an entity, which one column of the row holds as JSON. */
export interface Details {
  readonly services?: readonly Service[]
  readonly verifiableCredential?: readonly EmbeddedCredential[]
  /** Whether every proof in the credentials held when the registry stored them. Rows without this member were never checked. */
  readonly checked?: true
}

/** The details of an entity, read from its row. */
export const readDetails = ({ details }: Pick<StateColumns, 'details'>): Details =>
  details === null ? {} : JSON.parse(details)

/** The `status` that the registry gives to a credential whose proof it has not checked. */
export const unverified = 'unverified'
/** A copy of a credential with the mark that the registry has not verified the credential. */
export const marked = (credential: EmbeddedCredential): EmbeddedCredential => ({
  ...credential,
  status: unverified,
})

/** The state of an entity that each change records. */
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
    ...(row.class !== null && { class: row.class as TwinClass }), // the registry writes only classes to this column
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

/** The tombstone of a deactivated entity, which answers of status 410 carry. */
export const tombstoneOf = (row: EntityRow) => ({
  did: row.did,
  type: row.type,
  controller: row.controller,
  status: row.status,
  version: row.version,
  createdAt: row.created_at,
  deactivatedAt: row.updated_at,
})
