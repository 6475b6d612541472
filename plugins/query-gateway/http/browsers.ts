import type { Context } from 'koa'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'

const allowed =
  'Accept, Authorization, Connect-Protocol-Version, Connect-Timeout-Ms, Content-Type, Grpc-Timeout, If-None-Match, ' +
  'Traceparent, X-Api-Key, X-Cosmos-Block-Height, ' +
  'Grpc-Metadata-X-Cosmos-Block-Height'
const exposed =
  'ETag, Link, Deprecation, Retry-After, X-Request-Id, X-Cosmos-Block-Height, ' +
  'Grpc-Metadata-X-Cosmos-Block-Height'

/** Decides which browser pages may read the answers: none, unless the operator lists origins or `*`. */
export function createBrowserRule(origins: readonly string[]) {
  const any = origins.includes('*')
  const mark = ({ origin }: IncomingHttpHeaders, res: ServerResponse): boolean => {
    // The runtime's own CORS rule does not apply to the routes of the gateway.
    res.removeHeader('Access-Control-Allow-Origin')
    res.removeHeader('Access-Control-Expose-Headers')
    if (origins.length > 0 && !any) res.setHeader('Vary', 'Origin')
    if (origin === undefined || !(any || origins.includes(origin))) return false
    res.setHeader('Access-Control-Allow-Origin', any ? '*' : origin)
    res.setHeader('Access-Control-Expose-Headers', exposed)
    return true
  }
  return {
    mark,
    /** Answers a preflight request. A page of another origin gets no permission. */
    preflight(koa: Context, methods: readonly string[]): void {
      const { req, res } = koa
      for (const name of ['Methods', 'Headers']) res.removeHeader(`Access-Control-Allow-${name}`)
      res.removeHeader('Access-Control-Max-Age')
      koa.respond = false
      if (mark(req.headers, res)) {
        res.setHeader('Access-Control-Allow-Methods', methods.join(', '))
        res.setHeader('Access-Control-Allow-Headers', allowed)
        res.setHeader('Access-Control-Max-Age', '7200')
      }
      res.writeHead(204, { Allow: [...methods, 'OPTIONS'].join(', ') })
      res.end()
    },
  }
}
