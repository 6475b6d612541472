import { refuse } from '../did/refusal.ts'

/** The headers that can carry a credential, as they came. */
export interface CredentialHeaders {
  readonly authorization?: string
  readonly authType?: string
  readonly delegation?: string
}

/** The tokens found in them. */
export interface Credentials {
  readonly invocation?: string
  readonly delegation?: string
}

const NAMES: Readonly<Record<string, keyof CredentialHeaders>> = {
  authorization: 'authorization',
  'x-auth-type': 'authType',
  'x-ucan-delegation': 'delegation',
}

/**
 * Picks the credential headers out of Node's `rawHeaders`. Refused when one of them stands twice:
 * Node keeps the first `Authorization` and joins the others, and a proxy in front may choose otherwise.
 */
export function readHeaders(rawHeaders: readonly string[]): CredentialHeaders {
  const found: { -readonly [K in keyof CredentialHeaders]: string } = {}
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const key = NAMES[rawHeaders[i]!.toLowerCase()]
    if (key === undefined) continue
    if (found[key] !== undefined) refuse('a header stands twice')
    found[key] = rawHeaders[i + 1]!
  }
  return found
}

/**
 * Finds the tokens. `Authorization` counts only beside `X-Auth-Type: ucan`, and then it must be a
 * bearer token; without that it belongs to somebody else (a key, a proxy) and is not looked at.
 */
export function readCredentials(headers: CredentialHeaders): Credentials {
  const delegation = headers.delegation?.trim() || undefined
  if (headers.authType?.trim().toLowerCase() !== 'ucan' || headers.authorization === undefined)
    return { delegation }
  const space = headers.authorization.indexOf(' ')
  const scheme = headers.authorization.slice(0, Math.max(0, space))
  const invocation = headers.authorization.slice(space + 1).trim()
  if (scheme.toLowerCase() !== 'bearer' || invocation === '') refuse('not a bearer token')
  return { invocation, delegation }
}
