import type { Context } from 'koa'

const jsonType = 'application/json; charset=utf-8'

/** Answers a request, past Koa: JSON unless the headers say otherwise. */
export function answer(
  koa: Context,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  const { req, res } = koa
  koa.respond = false
  if (res.headersSent || res.destroyed) return
  // What is left of a body that was refused would be read as the next request.
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
