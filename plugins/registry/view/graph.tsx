import { useMemo } from 'react'

/** The entities and edges that a walk through the registry reached. */
export interface Walk {
  readonly nodes: readonly { readonly did: string; readonly type: string; readonly depth: number }[]
  readonly edges: readonly { readonly from: string; readonly role: string; readonly to: string }[]
  readonly truncated: boolean
}

const width = 640
const rowHeight = 110
/** How many entities the drawing shows at most; the tree shows all of them. */
const drawn = 60

/**
 * The walk as a drawing in rows by depth, whose nodes the keyboard reaches too, and as a tree. Most of the function's
 * length is the markup of the two.
 */
export function Graph(props: {
  walk: Walk
  /** The names of entities that the page has read. */
  names: ReadonlyMap<string, string>
  onSelect: (did: string) => void
}) {
  const { walk, names, onSelect } = props
  const nameOf = (did: string) => names.get(did) ?? shortOf(did)
  const places = useMemo(() => placesOf(walk), [walk])
  const height = Math.max(...places.values().map(({ y }) => y), 0) + 60
  return (
    <div>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        className="graph"
        role="group"
        aria-label="Entities and how they relate"
      >
        <defs>
          <marker
            id="arrow"
            viewBox="0 0 8 8"
            refX="8"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M0 0 8 4 0 8z" />
          </marker>
        </defs>
        {walk.edges.map(({ from, role, to }) => {
          const [a, b] = [places.get(from), places.get(to)]
          if (!a || !b) return null
          const length = Math.hypot(b.x - a.x, b.y - a.y) || 1
          const [dx, dy] = [((b.x - a.x) / length) * 16, ((b.y - a.y) / length) * 16]
          return (
            <g key={`${from} ${role} ${to}`} className="edge">
              <line
                x1={a.x + dx}
                y1={a.y + dy}
                x2={b.x - dx}
                y2={b.y - dy}
                markerEnd="url(#arrow)"
              />
              {walk.edges.length <= 24 && (
                <text x={(a.x + b.x) / 2} y={(a.y + b.y) / 2 - 4}>
                  {role}
                </text>
              )}
            </g>
          )
        })}
        {walk.nodes.slice(0, drawn).map(({ did, type, depth }) => {
          const { x, y } = places.get(did) ?? { x: 0, y: 0 }
          return (
            <a key={did} href={`#/registry/${encodeURIComponent(did)}`}>
              <circle className={depth === 0 ? 'node root' : 'node'} cx={x} cy={y} r={12} />
              <text className="name" x={x} y={y + 28}>
                {clipped(nameOf(did))}
              </text>{' '}
              <text className="kind" x={x} y={y + 42}>
                {type}
              </text>
            </a>
          )
        })}
      </svg>
      <p className="faint" role="status">
        {walk.nodes.length} {walk.nodes.length === 1 ? 'entity' : 'entities'}, {walk.edges.length}{' '}
        {walk.edges.length === 1 ? 'edge' : 'edges'}
        {walk.nodes.length > drawn && `; the first ${drawn} are drawn`}
        {walk.truncated && '. The walk was cut short: narrow it by depth or role.'}
      </p>
      <details>
        <summary>As a tree</summary>
        <Branch
          walk={walk}
          nameOf={nameOf}
          did={walk.nodes[0]?.did ?? ''}
          above={new Set()}
          onSelect={onSelect}
        />
      </details>
    </div>
  )
}

interface BranchProps {
  readonly walk: Walk
  readonly nameOf: (did: string) => string
  readonly did: string
  readonly above: ReadonlySet<string>
  readonly onSelect: (did: string) => void
}

/** An entity with its related entities below. An entity that already stands above in the branch is not repeated. */
function Branch({ walk, nameOf, did, above, onSelect }: BranchProps) {
  const related = walk.edges.flatMap(({ from, role, to }) =>
    from === did ? [{ role, other: to }] : to === did ? [{ role: `${role} of`, other: from }] : [],
  )
  const path = new Set(above).add(did)
  const typeOf = (one: string) =>
    walk.nodes.find((node) => node.did === one)?.type ?? 'not in this walk'
  const shown = related.filter(({ other }) => !above.has(other))
  if (shown.length === 0)
    return above.size === 0 ? <p className="faint">It is related to nothing yet.</p> : null
  return (
    <ul className="tree">
      {shown.map(({ role, other }) => (
        <li key={`${role} ${other}`}>
          <span className="faint">{role}</span>{' '}
          <button type="button" className="link" onClick={() => onSelect(other)}>
            {nameOf(other)}
          </button>{' '}
          <small>{typeOf(other)}</small>
          {!path.has(other) && above.size < 4 && (
            <Branch walk={walk} nameOf={nameOf} did={other} above={path} onSelect={onSelect} />
          )}
        </li>
      ))}
    </ul>
  )
}

/** Rows by depth, each spread over the width, so that names have room. */
function placesOf({ nodes }: Walk): Map<string, { x: number; y: number }> {
  const places = new Map<string, { x: number; y: number }>()
  const rows = Map.groupBy(nodes.slice(0, drawn), ({ depth }) => depth).values()
  let y = 40
  for (const row of rows) {
    const perLine = 6
    for (let from = 0; from < row.length; from += perLine) {
      const line = row.slice(from, from + perLine)
      line.forEach(({ did }, at) =>
        places.set(did, {
          x: ((at + 0.5) / line.length) * width,
          y: y + (at % 2) * (line.length > 3 ? 22 : 0),
        }),
      )
      y += rowHeight
    }
  }
  return places
}

const clipped = (name: string) => (name.length > 18 ? `${name.slice(0, 17)}…` : name)

const shortOf = (did: string) => {
  const name = did.slice(did.lastIndexOf(':') + 1)
  return name.length > 14 ? `${name.slice(0, 6)}…${name.slice(-4)}` : name
}
