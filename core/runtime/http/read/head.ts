import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '../../../errors.ts'
import { readTarget, type Target } from './target.ts'

const wellFormedId = /^[A-Za-z0-9._-]{1,128}$/

/** The id that the client gave its request, where it is well formed, or a new one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && wellFormedId.test(given) ? given : randomUUID()
}

/** Headers that must not come twice: a proxy in front may have read the other one. */
const single = ['host', 'authorization', 'content-type', 'x-auth-type', 'x-ucan-delegation']
const lengths = new Set(single.map((name) => name.length))

/** Checks what Node's parser leaves open, and reads the target. */
export function readHead(req: IncomingMessage): Target {
  const { headers, httpVersion, rawHeaders } = req
  let present = 0
  for (const name of single) if (headers[name] !== undefined) present++
  let seen = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (lengths.has(name.length) && single.includes(name.toLowerCase())) seen++
  }
  if (seen > present)
    throw new RuntimeError('BAD_REQUEST', `A header came twice that may come once.`, {
      hint: `Send one each of ${single.join(', ')}.`,
    })
  if (headers.host === undefined && httpVersion === '1.1')
    throw new RuntimeError('BAD_REQUEST', 'The request has no Host header.')
  const target = readTarget(req.url ?? '')
  if (target === undefined)
    throw new RuntimeError('BAD_REQUEST', 'The request target is not the path of a URL.')
  return target
}
