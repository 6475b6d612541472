import type { IncomingMessage, OutgoingHttpHeaders, RequestOptions } from 'node:http'
import { urlToHttpOptions } from 'node:url'
import { nodeHttp } from '../base/node-http.ts'
import { checkUrl, guardedLookup, type Resolve } from './guard.ts'
import { type OutboundRules, rulesInForce } from './rules.ts'

/** What is asked of an address that somebody else chose. */
export interface OutboundRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: OutgoingHttpHeaders
  readonly body?: string | Uint8Array
  /** Ends the request and its answer; the reason is what the request rejects with. */
  readonly signal: AbortSignal
  /** How names become addresses; by default as the machine does it. */
  readonly resolve?: Resolve
  /** What holds for the address, where that is not what holds for the app's own plugins. */
  readonly rules?: readonly OutboundRules[]
  /** How sockets are made: for tests, which have no public addresses. */
  readonly connect?: RequestOptions['createConnection']
}

/**
 * Calls an address that somebody else chose, and resolves with the head of its answer. The guard looks at the address
 * that the socket connects to. Redirects are not followed, cookies are not kept, no proxy is asked and no socket is used
 * twice. The caller reads the body within a bound of its own, or destroys it.
 */
export async function requestOutside(
  url: URL,
  { method, headers, body, signal, resolve, rules = rulesInForce(), connect }: OutboundRequest,
): Promise<IncomingMessage> {
  signal.throwIfAborted()
  checkUrl(url, rules)
  const { request, Agent } =
    url.protocol === 'https:' ? process.getBuiltinModule('node:https') : nodeHttp
  const options: RequestOptions = {
    ...urlToHttpOptions(url),
    method,
    headers,
    lookup: guardedLookup(url, rules, resolve),
    // An agent of its own: the global one may go through a proxy, which would look the name up itself.
    ...(connect ? { createConnection: connect } : { agent: new Agent({ keepAlive: false }) }),
  }
  return await new Promise((answered, failed) => {
    const asked = request(options)
    const abort = () => asked.destroy(asError(signal.reason))
    signal.addEventListener('abort', abort)
    asked.once('close', () => {
      signal.removeEventListener('abort', abort)
      // An answer that switches to another protocol closes the socket and is told in no other way.
      failed(new Error('The connection was closed before an answer came.'))
    })
    // Stays for the life of the request: a socket that was destroyed may report late.
    asked.on('error', (error) => failed(signal.aborted ? signal.reason : error))
    asked.once('response', (answer) => {
      // The reader learns of a break by its own iteration; without this listener an unread break would be a crash.
      answer.on('error', () => undefined)
      answered(answer)
    })
    asked.end(body)
  })
}

const asError = (reason: unknown): Error =>
  reason instanceof Error ? reason : new Error('The request was given up.')
