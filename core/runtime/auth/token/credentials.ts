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
  if (!saysUcan(headers)) return { delegation }
  const invocation = bearerIn(headers.authorization)
  if (invocation === undefined) refuse('not a bearer token')
  return { invocation, delegation }
}

/** Whether the headers hold a bearer token that counts as an invocation. */
export const isInvoking = (headers: CredentialHeaders): boolean =>
  saysUcan(headers) && bearerIn(headers.authorization) !== undefined

function saysUcan(
  headers: CredentialHeaders,
): headers is CredentialHeaders & { readonly authorization: string } {
  return headers.authType?.trim().toLowerCase() === 'ucan' && headers.authorization !== undefined
}

function bearerIn(authorization: string): string | undefined {
  const space = authorization.indexOf(' ')
  const scheme = authorization.slice(0, Math.max(0, space))
  const token = authorization.slice(space + 1).trim()
  return scheme.toLowerCase() === 'bearer' && token !== '' ? token : undefined
}
