import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import type { RouteLimit } from '../../../plugin.ts'
import { readEarly } from '../read/body.ts'
import { toldInTime } from './told-in-time.ts'
import { clientNetwork } from './client-address.ts'
import type { RateLimits } from './rate-limit.ts'

/** How long a plugin may take to tell what a request counts by: longer than a body may take that it reads for that. */
const tellMs = 40_000

/** Counts a request of a route, whose captures and query its input may be read from. */
export type CountRequest = (
  koa: Context,
  captures: readonly string[],
  query: string,
) => void | Promise<void>

type ReadInput = (
  req: IncomingMessage,
  captures: readonly string[],
  query: string,
) => Promise<{ readonly input: unknown }>

const byCaller = {
  of: ({ state }: Context) => String(state.caller),
  what: 'requests of this caller',
}

/** The limit that a route declares: by address, or by what the route says. */
export function createRouteLimit(
  limits: RateLimits,
  key: string,
  declared: RouteLimit,
  readInput: ReadInput,
  /** A route with a check of its own is counted after it, and by whom it found. */
  isOfCaller = false,
): CountRequest {
  const { max, perMs, by } = declared
  if (by === undefined) return limits.limit(key, max, perMs, isOfCaller ? byCaller : undefined)
  const count = limits.limit(key, max, perMs, {
    of: ({ state, ip }) => (state.countedBy as string | undefined) ?? clientNetwork(ip),
    what: 'requests',
  })
  return async (koa, captures, query) => {
    const read = async () => {
      // A body that is read to be counted has the usual size at most, whatever its route takes.
      await readEarly(koa.req)
      return (await readInput(koa.req, captures, query)).input
    }
    const late = `The plugin did not tell within ${tellMs / 1000} s what this request counts by.`
    const name = await toldInTime(() => by(koa, read), tellMs, late)
    // With a prefix, so that no name can be mistaken for an address.
    koa.state.countedBy = name === undefined ? undefined : `by:${name}`
    await count(koa)
  }
}
