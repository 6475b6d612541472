import type { RouteLimit } from '../../../plugin.ts'
import { bodyKind, parseBody, readEarly } from '../read/body.ts'
import { clientNetwork } from './client-address.ts'
import type { Limit, RateLimits } from './rate-limit.ts'

/** The limit that a route declares: by address, or by what the route says. */
export function createRouteLimit(limits: RateLimits, key: string, declared: RouteLimit): Limit {
  const { max, perMs, by } = declared
  if (by === undefined) return limits.limit(key, max, perMs)
  const count = limits.limit(key, max, perMs, {
    of: ({ state, ip }) => (state.countedBy as string | undefined) ?? clientNetwork(ip),
    what: 'requests',
  })
  return async (koa) => {
    const { req } = koa
    const read = async () => parseBody(await readEarly(req), bodyKind(req, ['json', 'form']))
    const name = await by(koa, read)
    // In a room of its own, so that no name can be mistaken for an address.
    koa.state.countedBy = name === undefined ? undefined : `by:${name}`
    await count(koa)
  }
}
