import type { IncomingHttpHeaders } from 'node:http'
import { keyPrefix } from '../../base/log.ts'

/**
 * What came in the place of a personal key: in `Authorization`, or in `X-API-Key` as some clients send it. Beside X-Auth-Type
 * the header is a UCAN. What begins as a key and is none is answered as a wrong key.
 */
export function presentedKey(headers: IncomingHttpHeaders): string | undefined {
  if (headers['x-auth-type'] !== undefined) return undefined
  const { authorization = '', 'x-api-key': other } = headers
  const bearer = /^bearer +(\S+) *$/i.exec(authorization)?.[1]
  return [bearer, typeof other === 'string' ? other.trim() : undefined].find((text) =>
    text?.startsWith(keyPrefix),
  )
}
