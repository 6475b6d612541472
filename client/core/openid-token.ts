/** A token with which another service asks the messaging server who the user is. */
export interface IOpenIDToken {
  readonly access_token: string
  readonly token_type: string
  readonly matrix_server_name: string
  readonly expires_in: number
}

/** The messaging account that an OpenID token is for. */
export interface GetOpenIdTokenParams {
  /** `@name:server` */
  readonly userId: string
  readonly matrixAccessToken: string
  readonly did?: string
  /** The address of the messaging server; without it the server in `userId`. */
  readonly homeServer?: string
}

/** Asks the user's messaging server for an OpenID token. */
export async function getOpenIdToken(params: GetOpenIdTokenParams): Promise<IOpenIDToken> {
  return (await import('../later/messaging-server.ts')).mintOpenIdToken(params)
}
