/** What is read of a source map; `x_marks` is ours: without it, a line is found only by counting from the first one. */
export interface SourceMap {
  readonly mappings: string
  readonly sources: readonly string[]
  readonly x_marks?: readonly Mark[]
}

/** Where a line begins in the text of a map, and what was counted until there. */
type Mark = readonly [from: number, source: number, line: number, column: number]

/** A place in a source: its number in the map, and the line and the column in it, from 0. */
export interface Place {
  readonly source: number
  readonly line: number
  readonly column: number
}

/** How many lines of the built file have one mark. */
const linesOfMark = 64

/** The marks of a map, by which `placeOf` need not read all that stands before a line. */
export function marksOf({ mappings }: SourceMap): Mark[] {
  const marks: Mark[] = []
  const at = { source: 0, line: 0, column: 0 }
  for (let from = 0, line = 0; from <= mappings.length; line++) {
    if (line % linesOfMark === 0) marks.push([from, at.source, at.line, at.column])
    from = readLine(mappings, from, at, () => undefined) + 1
  }
  return marks
}

/** The place in a source of which a place in the built file was made; lines and columns count from 0. */
export function placeOf(map: SourceMap, line: number, column: number): Place | undefined {
  const mark = Math.floor(line / linesOfMark)
  const marked = map.x_marks?.[mark]
  const [begin, source, sourceLine, sourceColumn] = marked ?? [0, 0, 0, 0]
  const at = { source, line: sourceLine, column: sourceColumn }
  let from = begin
  for (let skip = line - (marked ? mark * linesOfMark : 0); skip > 0; skip--) {
    from = readLine(map.mappings, from, at, () => undefined) + 1
    if (from > map.mappings.length) return undefined
  }
  let found: Place | undefined
  readLine(map.mappings, from, at, (builtColumn) => {
    if (builtColumn <= column) found = { ...at }
  })
  return found
}

/** The numbers of a place in their order; the fifth, of a name, is not asked for. */
const counted = [undefined, 'source', 'line', 'column'] as const

/** Counts on through one line, tells the built column of each place, and returns where the line's text ends. */
function readLine(
  mappings: string,
  from: number,
  at: { source: number; line: number; column: number },
  onPlace: (builtColumn: number) => void,
): number {
  let builtColumn = 0
  let field = 0
  let value = 0
  let shift = 0
  const endPlace = () => {
    if (field >= counted.length) onPlace(builtColumn)
    field = 0
  }
  let index = from
  for (; index < mappings.length && mappings[index] !== ';'; index++) {
    if (mappings[index] === ',') {
      endPlace()
      continue
    }
    const digit = digits.indexOf(mappings[index]!)
    value |= (digit & 31) << shift
    shift += 5
    if (digit & 32) continue
    const change = value & 1 ? -(value >> 1) : value >> 1
    const name = counted[field]
    if (name) at[name] += change
    else if (field === 0) builtColumn += change
    field++
    value = shift = 0
  }
  endPlace()
  return index
}

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
