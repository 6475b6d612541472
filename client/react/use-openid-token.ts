import type { OracleError } from '../core/error.ts'
import { getOpenIdToken, type IOpenIDToken } from '../core/openid-token.ts'
import { Resource } from '../core/resource.ts'
import { useClient } from './provider.ts'
import { useStore } from './use-store.ts'

/** What `useGetOpenIdToken` returns. */
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
