import { refuse } from '../did/refusal.ts'

/** The headers that can carry a credential, as they came. */
export interface CredentialHeaders {
  readonly authorization?: string
  readonly authType?: string
  readonly delegation?: string
}

/** The tokens found in them. */
interface Credentials {
  readonly invocation?: string
  readonly delegation?: string
}

/**
 * Finds the tokens. `Authorization` counts only beside `X-Auth-Type: ucan`, and must then be a bearer token; without
 * `X-Auth-Type` the header holds something else (a key, a proxy's password) and is not looked at.
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
