import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Operations } from '../operations/operations.ts'
import { heightHeaders, metadataPrefix } from './metadata.ts'

const yearSeconds = 31_536_000

/** The caching headers of an answer that never changes, because it is the state of one block. */
export interface Pin {
  readonly ETag: string
  readonly 'Cache-Control': string
  readonly Vary: string
}

/** The caching headers for the request that `identity` describes; `gated` says that the gate asks for credentials. */
export function pinOf(
  { fingerprint }: Operations,
  identity: string,
  headers: IncomingHttpHeaders,
  gated: boolean,
): Pin {
  const hash = createHash('sha256').update(`${fingerprint}\n${identity}`).digest('base64url')
  const own = Object.keys(headers).filter(
    (name) => name.startsWith(metadataPrefix) && name !== heightHeaders[1],
  )
  // A shared cache would give the answer to clients that the gate or the upstream refuses.
  const scope =
    gated || headers.authorization !== undefined || own.length > 0 ? 'private' : 'public'
  return {
    ETag: `"${hash.slice(0, 22)}"`,
    'Cache-Control': `${scope}, max-age=${yearSeconds}, immutable`,
    Vary: [...heightHeaders, 'Authorization', 'Origin', ...own].join(', '),
  }
}

/** Whether If-None-Match says that a client has the answer already. */
export const isKnown = (given: string | undefined, etag: string): boolean =>
  given !== undefined && given.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)
