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
  /** Asks for a new token, also where one is known: somebody refused the known one. */
  readonly fresh?: boolean
}

/** An OpenID token of the user's messaging server: the one that is known, until five minutes before its end. */
export async function getOpenIdToken(params: GetOpenIdTokenParams): Promise<IOpenIDToken> {
  return (await import('../later/messaging-server.ts')).openIdToken(params)
}
