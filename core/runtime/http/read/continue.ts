import type { IncomingMessage, ServerResponse } from 'node:http'
import { hasBody } from './body.ts'

/**
 * Sends `100 Continue` when somebody begins to read the body, and not before: a request that is refused by its head gets its refusal
 * in its place. Without it nobody knows whether the body still comes, so such an answer ends the connection.
 */
export function continueWhenRead(
  req: IncomingMessage,
  res: ServerResponse,
  isClosing: () => boolean,
): void {
  if (!hasBody(req)) return
  const mayStay = res.shouldKeepAlive
  res.shouldKeepAlive = false
  const onListener = (event: string | symbol) => {
    if (event !== 'data' && event !== 'readable') return
    req.off('newListener', onListener)
    if (res.headersSent) return
    res.shouldKeepAlive = mayStay && !isClosing()
    res.writeContinue()
  }
  req.on('newListener', onListener)
}
