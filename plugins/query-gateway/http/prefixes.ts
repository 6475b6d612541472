import type { RouteTable } from '../operations/route-table.ts'

/** How a path was asked for, and under which it is served. */
export interface Placed {
  readonly path: string
  /** The old prefix it came by. */
  readonly legacy?: string
}

/** One current prefix, the one in the annotations, and old ones that lead to the same routes. */
export function createPrefixes(current: string, legacy: readonly string[]) {
  const at = (prefix: string) => (prefix === '' ? '' : `/${prefix}`)
  const here = at(current)
  const under = (prefix: string, path: string) => path === prefix || path.startsWith(`${prefix}/`)
  return {
    current: here,
    /** A path under an old prefix, as the current one has it. */
    place(path: string): Placed {
      const old = legacy.find((prefix) => under(at(prefix), path))
      if (old === undefined || (here !== '' && under(here, path))) return { path }
      return { path: here + path.slice(at(old).length), legacy: old }
    },
    isOurs: (path: string) => here !== '' && under(here, path),
    /** Whether the rest of a path that is not served would be, behind the current prefix. */
    knowsTail(path: string, table: RouteTable<unknown>): boolean {
      const segments = path.split('/', mostSegments + 1)
      // Each tail is looked up by itself, which no honest path makes expensive.
      if (segments.length > mostSegments) return false
      return segments.some((_, index) => {
        const tail = segments.slice(index).join('/')
        return index > 1 && tail !== '' && table.methods(`${here}/${tail}`).length > 0
      })
    },
  }
}

const mostSegments = 24

/** A prefix as people write it: with slashes around it or without. */
export const plainPrefix = (text: string): string => text.trim().replace(/^\/+|\/+$/g, '')
