import { overList } from '../bulk.ts'
import type { Entities } from '../entities/entities.ts'
import type { Reader } from '../rights/reader.ts'
import { seenAmong } from '../rights/seen-among.ts'
import type { RegistryDatabase } from '../tables.ts'

/** How far, in which directions and over which edges a walk goes. */
export interface Walk {
  readonly depth: number
  readonly directions: ReadonlySet<'out' | 'in'>
  /** The roles of the edges that the walk follows; absent: all roles. */
  readonly roles?: ReadonlySet<string>
  /** The types of the nodes that the answer contains; absent: all types. */
  readonly kinds?: ReadonlySet<string>
}

/** An entity that a walk reached, and over how many edges. */
export interface GraphNode {
  readonly did: string
  readonly type: string
  readonly class?: string
  readonly depth: number
}

/** An edge between two entities that a walk reached. */
export interface GraphEdge {
  readonly from: string
  readonly role: string
  readonly to: string
}

/** The result of a walk. */
export interface Graph {
  readonly nodes: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
  /** Whether the walk left out nodes or edges because of its bounds. */
  readonly truncated: boolean
}

/** The greatest distance of a walk from its start, in edges. */
export const deepest = 10
/** The most entities that a walk reaches. */
const mostNodes = 10_000
/** The most edges that a walk returns. */
const mostEdges = 100_000

interface Step extends GraphEdge {
  /** The node that the step leads to, and its type. */
  readonly next: string
  readonly type: string
  readonly class: string | null
}

type Kinded = Pick<Step, 'type' | 'class'>

const nodeOf = (did: string, { type, class: twin }: Kinded, depth: number): GraphNode => ({
  did,
  type,
  ...(twin !== null && { class: twin }),
  depth,
})

type End = 'source' | 'target'

/** Makes the query for the steps over all edges that have one of the given entities at `end`. */
const walked = (db: RegistryDatabase, end: End, other: End) =>
  overList<Step>(db, (dids) =>
    db
      .selectFrom('registry_edges as edge')
      .innerJoin('registry_entities as entity', 'entity.did', `edge.${other}`)
      .select([
        'edge.source as from',
        'edge.role as role',
        'edge.target as to',
        `edge.${other} as next`,
        'entity.type as type',
        'entity.class as class',
      ])
      .where(`edge.${end}`, 'in', dids)
      // An entity may have millions of edges; one row more than `mostEdges` shows that there are more.
      .limit(mostEdges + 1),
  )

/** Walks the graph breadth first, one level at a time. The walk reads only edges, and the types of the entities at their ends. */
export class Traversal {
  readonly #db: RegistryDatabase
  readonly #entities: Entities
  readonly #outward
  readonly #inward

  constructor(db: RegistryDatabase, entities: Entities) {
    this.#db = db
    this.#entities = entities
    this.#outward = walked(db, 'source', 'target')
    this.#inward = walked(db, 'target', 'source')
  }

  /** The entities within bounds of an entity, and the edges between them, as far as the reader sees these entities. */
  async walk(start: string, asked: Walk, reader: Reader, signal?: AbortSignal): Promise<Graph> {
    await this.#entities.mustSee(start, reader)
    const first = await this.#entities.activeRow(start)
    const { directions, roles, kinds } = asked
    const depth = Math.min(asked.depth, deepest)
    const nodes: GraphNode[] = [nodeOf(start, first, 0)]
    const types = new Map([[start, first.type]])
    const edges = new Map<string, GraphEdge>()
    let truncated = false

    const stepsFrom = async (level: readonly string[]): Promise<Step[]> => {
      const steps: Step[] = []
      if (directions.has('out')) for (const step of await this.#outward(level)) steps.push(step)
      if (directions.has('in')) for (const step of await this.#inward(level)) steps.push(step)
      const walked = roles ? steps.filter(({ role }) => roles.has(role)) : steps
      if (reader.did === undefined) return walked
      // An entity that the reader does not see is no node, leads to no others, and does not make the answer `truncated`.
      const unknown = walked.flatMap(({ next }) => (types.has(next) ? [] : next))
      const seen = await seenAmong(this.#db, 'entity', unknown, reader)
      return walked.filter(({ next }) => types.has(next) || seen.has(next))
    }

    let level = [start]
    for (let at = 1; at <= depth && level.length > 0; at++) {
      signal?.throwIfAborted()
      const steps = await stepsFrom(level)
      const reached = new Map<string, Kinded>()
      for (const step of steps) if (!types.has(step.next)) reached.set(step.next, step)
      level = [...reached.keys()].sort()
      if (types.size + level.length > mostNodes) {
        truncated = true
        level = level.slice(0, mostNodes - types.size)
      }
      for (const did of level) {
        const kinded = reached.get(did)!
        types.set(did, kinded.type)
        nodes.push(nodeOf(did, kinded, at))
      }
      for (const { from, role, to } of steps.sort(inOrder)) {
        // An edge to a node that the bounds left out would have no end in the answer.
        if (!types.has(from) || !types.has(to)) continue
        if (edges.size >= mostEdges) truncated = true
        else edges.set(`${from} ${to} ${role}`, { from, role, to })
      }
    }
    if (asked.depth > depth && level.length > 0)
      truncated ||= (await stepsFrom(level)).some(({ next }) => !types.has(next))

    const shown = kinds ? nodes.filter(({ type }) => kinds.has(type)) : nodes
    const isShown = (did: string) => !kinds || kinds.has(types.get(did)!)
    return {
      nodes: shown,
      edges: [...edges.values()].filter(({ from, to }) => isShown(from) && isShown(to)),
      truncated,
    }
  }
}

/** Orders edges by comparing their texts here, because databases collate texts differently. */
function inOrder(a: GraphEdge, b: GraphEdge): number {
  if (a.from !== b.from) return a.from < b.from ? -1 : 1
  if (a.role !== b.role) return a.role < b.role ? -1 : 1
  return a.to < b.to ? -1 : a.to > b.to ? 1 : 0
}
