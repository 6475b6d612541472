import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, OwnCaller, OwnRequest, RouteContext } from '../../../plugin.ts'
import { hasBody, readEarly } from '../read/body.ts'
import type { Target } from '../read/target.ts'
import { bodyRule } from './input.ts'

/** How long a plugin may take to tell who calls. */
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
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(unavailable(`${owner} did not tell within ${verifyMs / 1000} s who calls.`))
    }, verifyMs)
  })
  try {
    const found: OwnCaller | false | null | undefined = await Promise.race([
      route.verify?.(request, ctx),
      late,
    ])
    // In plain JavaScript many say null or false for nobody.
    return found || undefined
  } finally {
    clearTimeout(timer)
    asking.set(route, (asking.get(route) ?? 1) - 1)
  }
}

const unavailable = (message: string) =>
  new RuntimeError('UNAVAILABLE', message, { headers: { 'Retry-After': '5' } })
