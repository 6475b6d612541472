import type { OracleError } from '../core/error.ts'
import type { IOpenIDToken } from '../core/openid-token.ts'
import { Resource } from '../core/resource.ts'
import { useClient } from './provider.ts'
import { useStore } from './use-store.ts'

/** What `useGetOpenIdToken` returns. */
export interface OpenIdTokenResult {
  readonly openIdToken: IOpenIDToken | undefined
  readonly isLoading: boolean
  readonly error: OracleError | null
  /** Asks for another token: the one before was refused. */
  readonly refetch: () => Promise<IOpenIDToken | undefined>
}

/** The OpenID token of the wallet's messaging account, renewed before its end. */
export function useGetOpenIdToken(): OpenIdTokenResult {
  const client = useClient()
  const resource = client.once(
    'openid token',
    () =>
      new Resource<IOpenIDToken>(async (self) =>
        (await import('../later/messaging-server.ts')).walletToken(client.wallet, self),
      ),
  )
  const { data, isLoading, error } = useStore(resource)
  return {
    openIdToken: data,
    isLoading,
    error,
    refetch: () => resource.refetch().catch(() => undefined),
  }
}
