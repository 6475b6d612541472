import type { Context } from 'koa'

const jsonType = 'application/json; charset=utf-8'

/** Answers a request without Koa. The body is JSON unless `headers` has another Content-Type. */
export function answer(
  koa: Context,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string | Uint8Array,
): void {
  const { req, res } = koa
  koa.respond = false
  if (res.headersSent || res.destroyed) return
  // Node would read the unread rest of a refused body as the next request on this connection.
  if (!req.complete && status >= 400) res.shouldKeepAlive = false
  if (status === 304) {
    res.writeHead(304, headers)
    res.end()
    return
  }
  res.writeHead(status, {
    'Content-Type': jsonType,
    ...headers,
    'Content-Length': Buffer.byteLength(body),
  })
  res.end(koa.method === 'HEAD' ? undefined : body)
}
