import type { ServerResponse } from 'node:http'
import type { Context } from 'koa'
import { nodeHttp } from '../../base/node-http.ts'
import { bodyless } from './answer.ts'
import { isReserved } from './reply.ts'

/** How long the body of a `Response` may go on. */
export interface BodyTimes {
  /** How long the reader may take nothing. */
  readonly readMs: number
  /** Fires when the server closes, for a body that may have no end of its own. */
  readonly closing?: AbortSignal
  /** How long such a body may go on then. */
  readonly goodbyeMs?: number
}

/**
 * Serves a web `Response`: its status, its headers but those that are the server's, and its body as it comes. When the
 * reader leaves, or takes nothing for `readMs`, the body's source is cancelled. Rejects with the cause of a body that breaks
 * off; once a part of the body is out the connection is cut, for an answer that ended would pass for a whole one. A body
 * with `closing` ends whole a moment after that signal, and its source is cancelled.
 */
export async function serveResponse(
  { req, res }: Context,
  response: Response,
  times: BodyTimes,
): Promise<void> {
  const { status, body } = response
  if (response.bodyUsed || body?.locked)
    throw new Error('A route returned a Response whose body was read already: return a clone().')
  if (status < 200 || status > 599) {
    leaveBody(response)
    throw new Error(`A route returned a Response with status ${status}, which is no answer.`)
  }
  if (body !== null && req.method !== 'HEAD' && !bodyless.has(status))
    return pump(body.getReader(), res, times, () => setHead(response, res))
  leaveBody(response)
  setHead(response, res)
  res.end()
}

/** Cancels the source of a body that nobody will read. */
export function leaveBody({ body }: Response): void {
  body?.cancel().catch(() => undefined)
}

/** Writes what a body brings, no faster than its reader takes it. `begin` sets the head once there is something to send. */
async function pump(
  source: ReadableStreamDefaultReader,
  res: ServerResponse,
  { readMs, closing, goodbyeMs }: BodyTimes,
  begin: () => void,
): Promise<void> {
  let goOn: (() => void) | undefined
  let last: NodeJS.Timeout | undefined
  const leave = () => void source.cancel().catch(() => undefined)
  // A reader who left while the handler worked causes no further event.
  if (res.destroyed) return leave()
  // A read that waits ends as well when its source is cancelled.
  res.once('close', () => (goOn?.(), leave()))
  res.on('drain', () => goOn?.())
  res.on('timeout', () => res.destroy())
  const farewell = () => void (last = setTimeout(() => (goOn?.(), leave()), goodbyeMs))
  if (closing?.aborted) farewell()
  else closing?.addEventListener('abort', farewell, { once: true })
  try {
    for (let isFirst = true; ; isFirst = false) {
      const { done, value } = await source.read()
      if (res.destroyed) return
      if (isFirst) begin()
      if (done) break
      if (res.write(value)) continue
      res.setTimeout(readMs)
      await new Promise<void>((resolve) => (goOn = resolve))
      res.setTimeout(0)
    }
    res.end()
  } catch (error) {
    leave()
    // A source that breaks off because the server closes is not at fault.
    if (closing?.aborted && !res.destroyed) {
      if (!res.headersSent) begin()
      return void res.end()
    }
    if (res.headersSent) res.destroy()
    throw error
  } finally {
    clearTimeout(last)
    closing?.removeEventListener('abort', farewell)
  }
}

function setHead(response: Response, res: ServerResponse): void {
  copyHeaders(response, res)
  res.statusCode = response.status
  res.statusMessage = response.statusText.replace(/[^ -~]/g, '')
}

function copyHeaders(response: Response, res: ServerResponse): void {
  const { headers } = response
  const ofConnection = new Set(
    (headers.get('connection') ?? '').split(',').map((name) => name.trim().toLowerCase()),
  )
  // What was fetched is decoded by then: its length and its encoding are those of other bytes.
  const isFetched = response.url !== ''
  const copied = [...headers].filter(
    ([name]) =>
      !isReserved(name) && !ofConnection.has(name) && !(isFetched && name === 'content-encoding'),
  )
  // All of them before the first is set, so that the answer to a fault has none of them.
  for (const [name, value] of copied) nodeHttp.validateHeaderValue(name, value)
  for (const [name, value] of copied) res.setHeader(name, value)
}
