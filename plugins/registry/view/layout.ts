/** The circle of an entity. */
export const radius = 12
/** The room that a name of 18 letters needs. */
const column = 118
const row = 132
const above = 28
const below = 58

/** Places in rows by depth, each row spread over the width, with as many in a line as their names have room for. */
export function layOut(
  nodes: readonly { readonly did: string; readonly depth: number }[],
  width: number,
): { readonly places: ReadonlyMap<string, { x: number; y: number }>; readonly height: number } {
  const perLine = Math.max(1, Math.floor(width / column))
  const places = new Map<string, { x: number; y: number }>()
  const depths = Map.groupBy(nodes, ({ depth }) => depth).values()
  let y = above
  for (const level of depths)
    for (let from = 0; from < level.length; from += perLine) {
      const line = level.slice(from, from + perLine)
      line.forEach(({ did }, at) => places.set(did, { x: ((at + 0.5) / line.length) * width, y }))
      y += row
    }
  return { places, height: Math.max(above, y - row) + below }
}
