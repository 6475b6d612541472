import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { placeOf, type SourceMap } from './source-map.ts'

/** Frames of stacks that are known with their sources. An error that comes often comes from the same ones. */
const mostKnown = 2_000

/**
 * From now on, the stack of an error names the lines of the sources from which the files below an address were built. A map
 * is read when the first stack asks for it.
 */
export function nameSources(built: string): void {
  const maps = new Map<string, SourceMap | undefined>()
  const known = new Map<string, string>()
  const sourceOf = (file: string, line: number, column: number): string | undefined => {
    if (!maps.has(file)) maps.set(file, readMap(file))
    const map = maps.get(file)
    const place = map && placeOf(map, line - 1, column - 1)
    if (!place) return undefined
    return `${new URL(map.sources[place.source] ?? '', file).href}:${place.line + 1}:${place.column + 1}`
  }
  const named = (frame: NodeJS.CallSite): string => {
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
  const before = Error.prepareStackTrace
  Error.prepareStackTrace = (error, frames) => {
    let texts: string[]
    try {
      texts = frames.map(named)
    } catch {
      texts = frames.map(String)
    }
    // Node's own writes the first line, and joins what follows.
    if (before) return before(error, texts as unknown as NodeJS.CallSite[])
    return [String(error), ...texts].join('\n    at ')
  }
}

function readMap(file: string): SourceMap | undefined {
  try {
    return JSON.parse(readFileSync(fileURLToPath(`${file}.map`), 'utf8'))
  } catch {
    return undefined
  }
}
