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
  return (await import('../later/messaging-server.ts')).mintOpenIdToken(params)
}
