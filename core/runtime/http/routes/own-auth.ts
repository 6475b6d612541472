import type { Context } from 'koa'
import type { AnyRoute, OwnCaller, OwnRequest, RouteContext } from '../../../plugin.ts'
import { hasBody, readEarly } from '../read/body.ts'
import type { Target } from '../read/target.ts'
import type { RouteBase } from './exchange.ts'
import { bodyRule } from './input.ts'
import type { ServedRoute } from './run-route.ts'
import { toldInTime, unavailable } from '../limits/told-in-time.ts'

/** How long a plugin may take to tell who calls, or whether anything is the caller's own. */
const verifyMs = 5_000
/** How many requests of one route may wait for the plugin's word at once. Each holds its body. */
const mostAtOnce = 256
const asking = new WeakMap<AnyRoute, number>()
const noBytes = Buffer.alloc(0)

/** What the `verify` of a route looks at: the request with the bytes of its body, read up to the route's limit of size. */
export async function ownRequest(
  { method, req, ip }: Context,
  route: AnyRoute,
  { path, query }: Target,
): Promise<OwnRequest> {
  const bytes = hasBody(req) ? await readEarly(req, bodyRule(route).maxBytes) : noBytes
  return { method, path, query, headers: req.headers, ip, raw: () => bytes }
}

/** Asks the plugin who calls. Rejects when the plugin throws, has not answered in time, or is asked too often at once. */
export async function askPlugin(
  route: AnyRoute,
  request: OwnRequest,
  ctx: RouteContext,
  owner: string,
): Promise<OwnCaller | undefined> {
  const before = asking.get(route) ?? 0
  if (before >= mostAtOnce) throw unavailable(`${owner} is asked who calls by too many requests.`)
  asking.set(route, before + 1)
  try {
    const found: OwnCaller | false | null | undefined = await toldInTime(
      () => route.verify?.(request, ctx),
      verifyMs,
      `${owner} did not tell within ${verifyMs / 1000} s who calls.`,
    )
    // In plain JavaScript many say null or false for nobody.
    return found || undefined
  } finally {
    asking.set(route, (asking.get(route) ?? 1) - 1)
  }
}

/** Asks the plugin whether anything here is the caller's own. Rejects when the plugin throws, or has not answered in time. */
export function saysOwn({ route, owner, context }: ServedRoute, base: RouteBase): Promise<boolean> {
  const late = `${owner} did not tell within ${verifyMs / 1000} s what is the caller's own.`
  return toldInTime(async () => route.own?.(await context(base)) ?? false, verifyMs, late)
}
