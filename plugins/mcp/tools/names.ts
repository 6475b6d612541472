import { createHash } from 'node:crypto'
import type { ListedTool } from './listed.ts'

const longest = 64

/** The names under which the model knows the tools of a server: `<server>_<tool>`, in characters that every provider takes. */
export function namesOf(server: string, tools: readonly ListedTool[]): Map<string, ListedTool> {
  const names = new Map<string, ListedTool>()
  for (const tool of tools) {
    const made = `${server}_${tool.name}`.replaceAll(/[^A-Za-z0-9_-]/g, '_')
    const short = made.length > longest ? withHash(made, tool.name) : made
    const name = names.has(short) ? withHash(made, tool.name) : short
    if (!names.has(name)) names.set(name, tool)
  }
  return names
}

const withHash = (name: string, of: string): string => {
  const hash = createHash('sha256').update(of).digest('hex').slice(0, 6)
  return `${name.slice(0, longest - 7)}_${hash}`
}

/** Whether a tool is among those that the configuration names: `*` stands for any text. */
export function isWanted(name: string, globs: readonly string[] | undefined): boolean {
  return globs === undefined || globs.some((glob) => matches(name, glob))
}

/** Piece by piece and never back, so that no pattern takes long. */
function matches(name: string, glob: string): boolean {
  const [first = '', ...rest] = glob.split('*')
  const last = rest.pop()
  if (last === undefined) return name === glob
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const piece of rest) {
    const found = name.indexOf(piece, at)
    if (found < 0) return false
    at = found + piece.length
  }
  return name.length - at >= last.length && name.endsWith(last)
}
