import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { placeOf, type SourceMap } from './source-map.ts'

/** Frames of stacks that are known with their sources. An error that comes often comes from the same ones. */
const mostKnown = 2_000

/**
 * Tells a frame of a stack as Node does, with the place in the source where the frame is one of the files below an address that
 * were built. A map is read when the first frame of its file comes.
 */
export function sourcesOf(built: string): (frame: NodeJS.CallSite) => string {
  const maps = new Map<string, SourceMap | undefined>()
  const known = new Map<string, string>()
  const sourceOf = (file: string, line: number, column: number): string | undefined => {
    if (!maps.has(file)) maps.set(file, readMap(file))
    const map = maps.get(file)
    const place = map && placeOf(map, line - 1, column - 1)
    if (!place) return undefined
    return `${new URL(map.sources[place.source] ?? '', file).href}:${place.line + 1}:${place.column + 1}`
  }
  return (frame) => {
    const text = String(frame)
    const file = frame.getFileName()
    if (!file?.startsWith(built)) return text
    const [line, column] = [frame.getLineNumber() ?? 0, frame.getColumnNumber() ?? 0]
    const place = `${file}:${line}:${column}`
    let source = known.get(place)
    if (source === undefined) {
      source = sourceOf(file, line, column) ?? place
      if (known.size >= mostKnown) known.clear()
      known.set(place, source)
    }
    return text.replace(place, () => source)
  }
}

function readMap(file: string): SourceMap | undefined {
  try {
    return JSON.parse(readFileSync(fileURLToPath(`${file}.map`), 'utf8'))
  } catch {
    return undefined
  }
}
