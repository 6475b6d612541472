import type { OAuthClientProvider, StoredOAuthTokens } from '@modelcontextprotocol/client'
import type { ServerConfig } from '../config/config.ts'

/**
 * What the package asks for when a server wants a token: the grant of client credentials. The secret goes to the authorization server
 * that the operator named, else to the first that the server names, and to no other one after that.
 */
export function clientCredentials({
  clientId,
  clientSecret,
  scopes,
  issuer,
}: NonNullable<ServerConfig['oracle']['oauth']>): OAuthClientProvider {
  let tokens: StoredOAuthTokens | undefined
  let only = issuer
  const unused = (): never => {
    throw new Error('Client credentials lead nobody to a page.')
  }
  return {
    redirectUrl: undefined, // no person is asked
    clientMetadata: {
      client_name: 'oracle-runtime',
      redirect_uris: [],
      grant_types: ['client_credentials'],
      token_endpoint_auth_method: 'client_secret_basic',
      ...(scopes && { scope: scopes.join(' ') }),
    },
    clientInformation: (context) => ({
      client_id: clientId,
      client_secret: clientSecret,
      issuer: (only ??= context?.issuer),
    }),
    tokens: () => tokens,
    saveTokens: (saved) => void (tokens = saved),
    invalidateCredentials: () => void (tokens = undefined),
    redirectToAuthorization: unused,
    saveCodeVerifier: unused,
    codeVerifier: unused,
    prepareTokenRequest: (scope) =>
      new URLSearchParams({ grant_type: 'client_credentials', ...(scope && { scope }) }),
  }
}
