/** The DID of the stoves' protocol. */
export const protocol = 'did:ixo:protocol:bench'

/** A way to do the measured work: by the registry, or by hand-written code. */
export interface Way {
  batch(lines: readonly string[]): Promise<unknown>
  read(did: string): Promise<unknown>
  list(after: number): Promise<{ items: readonly unknown[] }>
  walk(did: string, depth: number): Promise<{ nodes: readonly unknown[] }>
}

/** A stove as a line of a batch. */
export const lineOf = (prefix: string, n: number) =>
  JSON.stringify({
    did: `did:ixo:entity:${prefix}${String(n).padStart(8, '0')}`,
    type: 'CookstoveEntity',
    protocol,
    properties: { name: `Stove ${n}`, fuel: 'ethanol', power: n / 10, burners: 2, active: true },
  })

/** The columns that a created entity fills. */
export const entityColumns =
  'did, ordinal, type, class, controller, protocol, protocol_version, status, version, ' +
  'created_at, updated_at, properties, details, search, edges_made'
/** The columns that the recorded change of a created entity fills. */
export const changeColumns =
  'seq, kind, did, version, type, action, actor, at, about, controller, protocol, protocol_version, properties, details'

/** The values of `entityColumns` and `changeColumns` for a line of a batch. */
export function rowsOf(line: string, seq: number, at: string) {
  const { did, type, properties } = JSON.parse(line)
  const text = JSON.stringify(properties)
  const search = `${did}\n${type}\n${properties.name}\n${properties.fuel}`.toLowerCase()
  return {
    entity: [
      did,
      seq,
      type,
      null,
      'did:key:bench',
      protocol,
      1,
      'active',
      1,
      at,
      at,
      text,
      null,
      search,
      0,
    ],
    change: [
      seq,
      'entity',
      did,
      1,
      type,
      'created',
      'bench',
      at,
      null,
      'did:key:bench',
      protocol,
      1,
      text,
      null,
    ],
  }
}

/** An entity as its table has it. */
export interface Row {
  did: string
  type: string
  controller: string
  protocol: string
  protocol_version: number
  properties: string
  details: string | null
  status: string
  version: number
  created_at: string
  updated_at: string
  edges_made: number
}

/** An entity as a client reads it. */
export const wireOf = (
  row: Row,
  edges: readonly { role: string; target: string; properties: string | null }[],
) => ({
  did: row.did,
  type: row.type,
  controller: row.controller,
  protocol: { did: row.protocol, version: row.protocol_version },
  properties: JSON.parse(row.properties),
  services: row.details === null ? [] : JSON.parse(row.details).services,
  relationships: edges.map(({ role, target, properties }) =>
    properties === null ? { role, target } : { role, target, properties: JSON.parse(properties) },
  ),
  status: row.status,
  version: row.version,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})

/** How many lines the hand-written code writes in one transaction, the same number as the registry's. */
export const perTransaction = 500
