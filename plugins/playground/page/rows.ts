import type { Piece } from './traffic.ts'

/** A row of the wire: one piece, or several that say one thing. */
export interface Row extends Piece {
  /** The name of the event. */
  readonly name?: string
  /** How many pieces the row stands for. */
  readonly count: number
  /** The ways by which they came. */
  readonly ways: readonly Piece['kind'][]
  /** The run that the piece belongs to. */
  readonly run?: string
  /** What neighbouring tokens say together. */
  readonly words?: string
}

interface Frame {
  readonly name: string
  readonly payload: Readonly<Record<string, unknown>>
  /** The number of the event in its run. */
  readonly nth?: string
}

/** The event in a frame of a stream or of a socket; undefined for a request and for what is no event. */
function frameOf({ kind, text, title }: Piece): Frame | undefined {
  if (kind === 'http') return undefined
  const json = kind === 'sse' ? (/^data: (.*)$/m.exec(text)?.[1] ?? '') : text
  try {
    const read: unknown = JSON.parse(json)
    const outer = Object(read) as Record<string, unknown>
    const payload = Object(outer.payload ?? outer) as Record<string, unknown>
    const name = kind === 'sse' ? title : String(outer.eventName ?? title)
    const nth = kind === 'sse' ? /^id: (.*)$/m.exec(text)?.[1] : payload.seq
    return { name, payload, ...(nth !== undefined && { nth: String(nth) }) }
  } catch {
    return undefined
  }
}

/** The words of a token; undefined for an event that is none. */
const tokenOf = ({ name, payload }: Frame): string | undefined => {
  const said =
    name === 'message' ? payload.content : name === 'reasoning' ? payload.reasoning : undefined
  return typeof said === 'string' ? said : undefined
}

/**
 * The rows of these pieces: neighbouring tokens of one run are one, and what came by stream and by socket is one.
 */
export function rowsOf(pieces: readonly Piece[]): Row[] {
  const rows: Row[] = []
  let run: string | undefined
  const seen = new Map<string, { row: number; piece: Piece }>()
  for (const piece of pieces) {
    const frame = frameOf(piece)
    // A token names no run: it belongs to the one that was named last.
    if (typeof frame?.payload.runId === 'string') run = frame.payload.runId
    const alone = {
      ...piece,
      count: 1,
      ways: [piece.kind],
      ...(frame && run !== undefined && { run }),
    }
    if (!frame) {
      rows.push(alone)
      continue
    }
    const key = frame.nth === undefined ? undefined : `${run} ${frame.nth}`
    const twin = key === undefined ? undefined : seen.get(key)
    const known = twin && rows[twin.row]
    if (known && twin.piece.kind !== piece.kind) {
      rows[twin.row] = { ...known, ways: [...new Set([...known.ways, piece.kind])] }
      continue
    }
    const words = tokenOf(frame)
    const last = rows.at(-1)
    if (
      words !== undefined &&
      last?.words !== undefined &&
      last.name === frame.name &&
      last.run === run
    )
      rows[rows.length - 1] = {
        ...last,
        count: last.count + 1,
        words: last.words + words,
        size: last.size + piece.size,
        text: `${last.text}\n\n${piece.text}`,
      }
    else rows.push({ ...alone, name: frame.name, ...(words !== undefined && { words }) })
    if (key !== undefined) seen.set(key, { row: rows.length - 1, piece })
  }
  return rows
}
