import type { RouteTable } from '../operations/route-table.ts'

/** A path under the current prefix, and the old prefix that the client used. */
export interface Placed {
  readonly path: string
  /** The old prefix in the request; absent where the request has the current one. */
  readonly legacy?: string
}

/** The current prefix of a gateway, which is the prefix in the annotations, and the old ones that it still takes. */
export class Prefixes {
  /** The current prefix with its slash; empty where there is none. */
  readonly current: string
  readonly #legacy: readonly string[]

  constructor(current: string, legacy: readonly string[]) {
    this.current = at(current)
    this.#legacy = legacy
  }

  /** Replaces an old prefix of a path by the current prefix. */
  place(path: string): Placed {
    const old = this.#legacy.find((prefix) => isUnder(at(prefix), path))
    if (old === undefined || this.isOurs(path)) return { path }
    return { path: this.current + path.slice(at(old).length), legacy: old }
  }

  /** Whether a path stands under the current prefix. */
  isOurs(path: string): boolean {
    return this.current !== '' && isUnder(this.current, path)
  }

  /** Whether a part at the end of an unknown path would be served under the current prefix. */
  knowsTail(path: string, table: RouteTable<unknown>): boolean {
    const segments = path.split('/', mostSegments + 1)
    // The check looks up every tail of the path, so paths with very many segments are not checked.
    if (segments.length > mostSegments) return false
    return segments.some((_, index) => {
      const tail = segments.slice(index).join('/')
      return index > 1 && tail !== '' && table.methods(`${this.current}/${tail}`).length > 0
    })
  }
}

const at = (prefix: string) => (prefix === '' ? '' : `/${prefix}`)
const isUnder = (prefix: string, path: string) => path === prefix || path.startsWith(`${prefix}/`)

const mostSegments = 24

/** A prefix without the slashes that people may write around it. */
export const plainPrefix = (text: string): string => text.trim().replace(/^\/+|\/+$/g, '')
