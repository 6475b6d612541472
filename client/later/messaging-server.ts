import { OracleError } from '../core/error.ts'
import type { GetOpenIdTokenParams, IOpenIDToken } from '../core/openid-token.ts'
import type { IWalletProps } from '../core/records.ts'
import { ask, readJson, trimmed } from '../core/request.ts'
import { dropToken, keepToken, keptToken } from './token-box.ts'

/** A token is renewed so long before its end. */
const earlyMs = 5 * 60_000
/** The longest wait of a timer. */
const longestMs = 2 ** 31 - 1
/** How many tokens a page holds at once. */
const most = 20

interface Held {
  readonly token: IOpenIDToken
  readonly until: number
}

const held = new Map<string, Held>()
const minting = new Map<string, Promise<Held>>()

/** An OpenID token of a messaging account: the one that is known, as long as it lasts, else a new one. */
export async function openIdToken(params: GetOpenIdTokenParams): Promise<IOpenIDToken> {
  return (await tokenOf(params)).token
}

/** What holds the token of a wallet for a page. */
interface Owner {
  getSnapshot(): { readonly data: IOpenIDToken | undefined }
  refetch(): Promise<unknown>
}

/** The OpenID token of a wallet, which its owner reads again before its end. Who reads again wants another one. */
export async function walletToken(
  { did, address, matrix }: IWalletProps,
  owner: Owner,
): Promise<IOpenIDToken> {
  const host = matrix.homeServer.replace(/^https?:\/\//, '').replace(/\/.*$/, '')
  const { token, until } = await tokenOf({
    userId: `@did-ixo-${address}:${host}`,
    did,
    matrixAccessToken: matrix.accessToken,
    homeServer: matrix.homeServer,
    fresh: owner.getSnapshot().data !== undefined,
  })
  const renewed = new WeakRef(owner)
  const wait = Math.min(Math.max(until - Date.now(), 1_000), longestMs)
  setTimeout(
    () =>
      void renewed
        .deref()
        ?.refetch()
        .catch(() => {}),
    wait,
  )
  return token
}

async function tokenOf(params: GetOpenIdTokenParams): Promise<Held> {
  const { userId, matrixAccessToken, did = '', fresh } = params
  const server = serverOf(params)
  const key = JSON.stringify([server, userId, did, matrixAccessToken])
  const underWay = minting.get(key)
  if (underWay) return underWay
  const begun = find(params, key, fresh).finally(() => minting.delete(key))
  minting.set(key, begun)
  return begun

  async function find(of: GetOpenIdTokenParams, name: string, isNew = false): Promise<Held> {
    const box = { userId, secret: `${did}\n${matrixAccessToken}` }
    if (!isNew) {
      const known = held.get(name) ?? (await keptToken<Held>(box))
      if (known && Date.now() < known.until) return remember(name, known)
    }
    held.delete(name)
    try {
      const minted = await mint(of, server)
      await keepToken(box, minted)
      return remember(name, minted)
    } catch (error) {
      if (error instanceof OracleError && (error.status === 401 || error.status === 403))
        dropToken(userId)
      throw error
    }
  }
}

function remember(key: string, token: Held): Held {
  held.delete(key)
  held.set(key, token)
  for (const [oldest] of held) if (held.size > most) held.delete(oldest)
  return token
}

/** Asks the messaging server for an OpenID token. */
async function mint(
  { userId, matrixAccessToken }: GetOpenIdTokenParams,
  server: string,
): Promise<Held> {
  const url = `${server}/_matrix/client/v3/user/${encodeURIComponent(userId)}/openid/request_token`
  const headers = { authorization: `Bearer ${matrixAccessToken}` }
  const begun = Date.now()
  const token = await readJson<IOpenIDToken>({ method: 'POST', body: {}, headers }, (call) =>
    ask(url, call),
  )
  if (typeof token?.access_token !== 'string' || !(token.expires_in > 0))
    throw new OracleError('server', `${server} answered with no OpenID token.`)
  const lifeMs = token.expires_in * 1000
  return { token, until: begun + Math.max(lifeMs - earlyMs, lifeMs / 2) }
}

function serverOf({ userId, matrixAccessToken, homeServer }: GetOpenIdTokenParams): string {
  const server = homeServer || userId.slice(userId.indexOf(':') + 1)
  if (!matrixAccessToken || !server)
    throw new OracleError(
      'invalid_request',
      'The wallet has no messaging account: its field "matrix" is empty.',
    )
  return /^https?:/.test(server) ? trimmed(server) : `https://${server}`
}
