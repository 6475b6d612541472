import type { OracleError } from './error.ts'
import { useClient } from './provider.ts'
import { Resource } from './resource.ts'
import { useStore } from './use-store.ts'

/** A token by which another service learns from the messaging server who the user is. */
export interface IOpenIDToken {
  readonly access_token: string
  readonly token_type: string
  readonly matrix_server_name: string
  readonly expires_in: number
}

export interface GetOpenIdTokenParams {
  /** `@name:server` */
  readonly userId: string
  readonly matrixAccessToken: string
  readonly did?: string
  /** The messaging server's address; without it, the server in the user's id. */
  readonly homeServer?: string
}

/** Mints an OpenID token on the messaging server. */
export async function getOpenIdToken(params: GetOpenIdTokenParams): Promise<IOpenIDToken> {
  return (await import('./messaging-server.ts')).mintOpenIdToken(params)
}

export interface OpenIdTokenResult {
  readonly openIdToken: IOpenIDToken | undefined
  readonly isLoading: boolean
  readonly error: OracleError | null
  readonly refetch: () => Promise<IOpenIDToken | undefined>
}

/** An OpenID token of the wallet's messaging account. */
export function useGetOpenIdToken(): OpenIdTokenResult {
  const client = useClient()
  const { did, address, matrix } = client.wallet
  const resource = client.once('openid token', () => {
    const host = matrix.homeServer.replace(/^https?:\/\//, '').replace(/\/.*$/, '')
    const userId = `@did-ixo-${address}:${host}`
    return new Resource(() =>
      getOpenIdToken({
        userId,
        did,
        matrixAccessToken: matrix.accessToken,
        homeServer: matrix.homeServer,
      }),
    )
  })
  const { data, isLoading, error } = useStore(resource)
  return {
    openIdToken: data,
    isLoading,
    error,
    refetch: () => resource.refetch().catch(() => undefined),
  }
}
