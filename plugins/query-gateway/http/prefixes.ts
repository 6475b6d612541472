import type { RouteTable } from '../operations/route-table.ts'

/** A path under the current prefix, and the old prefix that the client used. */
export interface Placed {
  readonly path: string
  /** The old prefix in the request; absent where the request has the current one. */
  readonly legacy?: LegacyPrefix
}

/** An old prefix, and since when it is one, in seconds since 1970. */
export interface LegacyPrefix {
  readonly prefix: string
  readonly since: number
}

/** The current prefix of a gateway, which is the prefix in the annotations, and the old ones that it still takes. */
export class Prefixes {
  /** The current prefix with its slash; empty where there is none. */
  readonly current: string
  readonly #legacy: readonly LegacyPrefix[]

  constructor(current: string, legacy: readonly LegacyPrefix[]) {
    this.current = at(current)
    this.#legacy = legacy
  }

  /** Replaces an old prefix of a path by the current prefix. */
  place(path: string): Placed {
    const old = this.#legacy.find(({ prefix }) => isUnder(at(prefix), path))
    if (old === undefined || this.isOurs(path)) return { path }
    return { path: this.current + path.slice(at(old.prefix).length), legacy: old }
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

/** Reads an old prefix as operators write it, `prefix` or `prefix=2026-01-31`; undefined where the day is none. */
export function readLegacyPrefix(text: string, startedAt: Date): LegacyPrefix | undefined {
  const [, path = '', day] = /^([^=]*)(?:=(.*))?$/.exec(text) ?? []
  // Without a day all that is known is that the prefix was an old one when this server started.
  const since = day === undefined ? startedAt : dayOf(day.trim())
  return since && { prefix: plainPrefix(path), since: Math.floor(since.getTime() / 1000) }
}

function dayOf(text: string): Date | undefined {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return undefined
  const day = new Date(`${text}T00:00:00Z`)
  // The 31st of February becomes the 3rd of March, which is not what stands there.
  return Number.isNaN(day.getTime()) || !day.toISOString().startsWith(text) ? undefined : day
}
