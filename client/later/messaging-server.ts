import { OracleError } from '../core/error.ts'
import type { GetOpenIdTokenParams, IOpenIDToken } from '../core/openid-token.ts'
import { ask, readJson, trimmed } from '../core/request.ts'

/** Asks the messaging server for an OpenID token. */
export async function mintOpenIdToken({
  userId,
  matrixAccessToken,
  homeServer = userId.slice(userId.indexOf(':') + 1),
}: GetOpenIdTokenParams): Promise<IOpenIDToken> {
  if (!matrixAccessToken || !homeServer)
    throw new OracleError(
      'invalid_request',
      'The wallet has no messaging account: its field "matrix" is empty.',
    )
  const server = /^https?:/.test(homeServer) ? trimmed(homeServer) : `https://${homeServer}`
  const url = `${server}/_matrix/client/v3/user/${encodeURIComponent(userId)}/openid/request_token`
  const headers = { authorization: `Bearer ${matrixAccessToken}` }
  return readJson({ method: 'POST', body: {}, headers }, (call) => ask(url, call))
}
