import type { TwinClass } from './kinds.ts'
import type { EdgeRow, EntityRow, StateColumns } from './tables.ts'

export interface Service {
  /** In fragment form: `#api`. */
  readonly id: string
  readonly type: string
  readonly endpoint: string
}

export interface EmbeddedCredential {
  readonly type: string | readonly string[]
  readonly issuer: string
  readonly [field: string]: unknown
}

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

interface Details {
  readonly services?: readonly Service[]
  readonly verifiableCredential?: readonly EmbeddedCredential[]
}

/** What a change of an entity keeps of it. */
export function stateOf(
  row: StateColumns,
): Pick<Entity, 'controller' | 'protocol' | 'properties' | 'services' | 'verifiableCredential'> {
  const details: Details = row.details === null ? {} : JSON.parse(row.details)
  return {
    controller: row.controller,
    ...(row.protocol !== null && {
      protocol: { did: row.protocol, version: row.protocol_version ?? 0 },
    }),
    properties: JSON.parse(row.properties),
    services: details.services ?? [],
    verifiableCredential: details.verifiableCredential ?? [],
  }
}

/** The columns of services and credentials; null when there are none. */
export const detailsOf = (
  services: readonly unknown[] = [],
  verifiableCredential: readonly unknown[] = [],
): string | null =>
  services.length + verifiableCredential.length === 0
    ? null
    : JSON.stringify({ services, verifiableCredential })

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
