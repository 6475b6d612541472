import { withClaimTables } from '../claims/tables.ts'
import { claimsOf, credentialsOf, type Reader } from '../rights/reader.ts'
import type { RegistryDatabase } from '../tables.ts'
import { deepest, type GraphNode, type Traversal } from './traverse.ts'

/** The edges of one role between entities of two types. */
export interface Flow {
  readonly from: string
  readonly role: string
  readonly to: string
  readonly edges: number
}

/** The network below an entity. */
export interface System {
  readonly did: string
  /** The first members, nearest first; `totals` counts all that the walk reached. */
  readonly members: readonly GraphNode[]
  readonly flows: readonly Flow[]
  readonly totals: {
    readonly members: number
    readonly edges: number
    readonly byType: Readonly<Record<string, number>>
    readonly byClass: Readonly<Record<string, number>>
    /** The claims about the members, by their status. */
    readonly claims: Readonly<Record<string, number>>
    readonly credentials: number
  }
  /** Whether the walk ended at its bounds, so that the totals are of a part. */
  readonly truncated: boolean
}

/** How many flows an answer lists at most. */
const mostFlows = 1000
/** Of how many members one query counts the claims. */
const atOnce = 500

/** Reads the network below an entity: what the edges from it lead to, as far as a walk goes. */
export class Systems {
  readonly #db: RegistryDatabase
  readonly #graph: Traversal

  constructor(db: RegistryDatabase, graph: Traversal) {
    this.#db = db
    this.#graph = graph
  }

  /** The members, flows and totals of the network below an entity, as far as the reader sees them. */
  async read(did: string, limit: number, reader: Reader, signal?: AbortSignal): Promise<System> {
    const walk = { depth: deepest, directions: new Set(['out'] as const) }
    const { nodes, edges, truncated } = await this.#graph.walk(did, walk, reader, signal)
    const members = nodes.filter((node) => node.depth > 0)
    const types = new Map(nodes.map((node) => [node.did, node.type]))
    const flows = new Map<string, Flow>()
    for (const { from, role, to } of edges) {
      const flow = { from: types.get(from) ?? '', role, to: types.get(to) ?? '' }
      const key = JSON.stringify(flow)
      flows.set(key, { ...flow, edges: (flows.get(key)?.edges ?? 0) + 1 })
    }
    return {
      did,
      members: members.slice(0, limit),
      flows: [...flows.values()].slice(0, mostFlows),
      totals: {
        members: members.length,
        edges: edges.length,
        byType: countBy(members, ({ type }) => type),
        byClass: countBy(members, ({ class: twin = 'none' }) => twin),
        ...(await this.#claimsAbout(members, reader, signal)),
      },
      truncated,
    }
  }

  async #claimsAbout(members: readonly GraphNode[], reader: Reader, signal?: AbortSignal) {
    const db = withClaimTables(this.#db)
    const claims: Record<string, number> = { submitted: 0, approved: 0, rejected: 0 }
    let credentials = 0
    for (let from = 0; from < members.length; from += atOnce) {
      signal?.throwIfAborted()
      const dids = members.slice(from, from + atOnce).map(({ did }) => did)
      const found = await db
        .selectFrom('registry_claims')
        .select(['status', (all) => all.fn.countAll<number>().as('count')])
        .where('subject', 'in', dids)
        .where(claimsOf(reader))
        .groupBy('status')
        .execute()
      for (const { status, count } of found) claims[status] = (claims[status] ?? 0) + Number(count)
      const valid = await db
        .selectFrom('registry_credentials')
        .select((all) => all.fn.countAll<number>().as('count'))
        .where('subject', 'in', dids)
        .where('revoked_at', 'is', null)
        .where(credentialsOf(reader))
        .executeTakeFirstOrThrow()
      credentials += Number(valid.count)
    }
    return { claims, credentials }
  }
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Record<string, number> {
  const groups = Map.groupBy(items, keyOf)
  return Object.fromEntries([...groups].map(([key, group]) => [key, group.length]))
}
