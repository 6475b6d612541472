import type { Context } from 'koa'
import type { WebModule } from '../../../plugin.ts'
import type { Access } from './access.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { ofStatus } from '../answer/error-body.ts'

/** A web module: a Koa middleware for `/mount` and everything below. */
export interface ServedMount {
  readonly mount: string
  /** A plugin's name, or `the kernel`. */
  readonly owner: string
  readonly handler: WebModule
}

/** Asks the web modules at a path. False: none of them answered. `routed`: a route owns the path. */
export type ServeMounts = (koa: Context, path: string, routed: boolean) => Promise<boolean>

/**
 * Web modules are asked where no route matched, the deepest mount first; each may pass on to the next
 * with `next()`. '/' comes last, for paths that no route owns with any method.
 */
export function createMounts(web: readonly ServedMount[], access: Access): ServeMounts {
  const mounts = web.toSorted((a, b) => b.mount.length - a.mount.length)
  return async (koa, path, routed) => {
    const below = mounts.filter(({ mount }) =>
      mount === '/' ? !routed : path === mount || path.startsWith(`${mount}/`),
    )
    if (below.length === 0) return false
    const { authorization, 'x-ucan-delegation': delegation } = koa.headers
    if (authorization !== undefined || delegation !== undefined)
      koa.user = await access.optional(koa)
    const ask = async (index: number): Promise<void> => {
      const asked = below[index]
      if (asked) underWay(`web ${asked.mount} of ${asked.owner}`)
      return asked?.handler(koa, () => ask(index + 1))
    }
    await ask(0)
    if (koa.respond === false || koa.headerSent || (koa.body ?? undefined) !== undefined)
      return true
    if (koa.status === 404) return false
    if (koa.status >= 400) throw ofStatus(koa.status)
    return true
  }
}
