import type { Context } from 'koa'
import { RuntimeError } from '../../errors.ts'
import type { Log, RouteAuth } from '../../plugin.ts'
import type { Access } from '../http/routes/access.ts'
import type { LazyAuth } from './lazy.ts'
import type { Keyring } from './keys.ts'
import { isLookUpUnavailable } from './did/lookups.ts'
import { notGranted, type Rights } from './grants/rights.ts'
import { unauthorized } from './did/refusal.ts'
import type { AuthenticatedUser } from './user.ts'
import { readEarly } from '../http/read/body.ts'
import { clientNetwork } from '../http/limits/client-address.ts'
import { wasForwarded } from '../http/limits/forwarded.ts'
import type { RateLimits } from '../http/limits/rate-limit.ts'

export interface CallersOptions {
  readonly auth: LazyAuth
  readonly apiKeys: Keyring
  readonly operatorTokens: Keyring
  readonly rights: Rights
  readonly rateLimits: RateLimits
  readonly authFailuresPerMinute: number
  readonly callsPerMinute: number
  /** In development the operator's routes are open to this machine. */
  readonly openToLoopback: boolean
  /** Whether a browser page of this origin belongs to the server. */
  readonly isOwnOrigin: (origin: string) => boolean
  readonly log: Log
}

/** What came over a socket instead of headers. */
export interface SocketTokens {
  readonly invocation?: string
  readonly delegation?: string
  /** The address of the client, and the path it connected to. */
  readonly ip: string
  readonly path: string
  /** The client cannot send new tokens: then the socket lives as long as the longest of these. */
  readonly lasting?: boolean
}

/** Whom a socket belongs to. */
export type SocketUser = Pick<AuthenticatedUser, 'did' | 'cids' | 'expiresAt'>

export interface Callers extends Access {
  /** Proves who stands behind a socket. Counts as a call does, and fails like one. */
  bySocket(tokens: SocketTokens): Promise<SocketUser>
}

/**
 * Who may call a route. Failures are counted per address and successes per DID, in two buckets: whoever
 * floods with bad credentials is answered 429, and valid callers from the same address still get in.
 */
export function createCallers(options: CallersOptions): Callers {
  const { auth, apiKeys, operatorTokens, rights, rateLimits, log } = options
  const failures = rateLimits.limit('auth-failures', options.authFailuresPerMinute, 60_000)
  // Not the caller's fault, and so a bucket of its own: a flood of unknown issuers costs its address something.
  const lookUps = rateLimits.limit('issuer-lookups', options.authFailuresPerMinute, 60_000, {
    of: (koa) => clientNetwork(koa.ip),
    what: 'issuers from this address that could not be looked up',
  })
  const calls = rateLimits.limit('calls', options.callsPerMinute, 60_000, {
    of: (koa) => koa.state.caller as string,
    what: 'calls of this DID',
  })

  /** Only a caller who fails is counted, and answered 429 once it failed too often. */
  async function countFailure(koa: Context, error: unknown): Promise<void> {
    if (isLookUpUnavailable(error)) await lookUps(koa)
    else if (error instanceof RuntimeError && error.status === 401) await failures(koa)
  }

  async function byUcan(koa: Context): Promise<AuthenticatedUser> {
    const { req } = koa
    const { authorization, 'x-auth-type': authType, 'x-ucan-delegation': delegation } = req.headers
    const user = await auth.authenticate({
      authorization,
      authType: authType as string | undefined, // the edge refuses headers that come twice
      delegation: delegation as string | undefined,
      method: koa.method,
      path: pathOf(koa),
      body: () => readEarly(req),
      address: clientNetwork(koa.ip),
    })
    koa.state.caller = user.did
    await calls(koa)
    return user.delegation ? user : auth.withDelegation(user)
  }

  async function byKey(koa: Context, keys: Keyring, owner: string) {
    const { authorization, 'x-auth-type': authType } = koa.headers
    const name = authType === undefined ? keys.match(authorization) : undefined
    if (name === undefined) return undefined
    log.debug({ key: name, owner }, 'a key was used')
    return { caller: `key:${name}` }
  }

  const ways: Record<
    RouteAuth,
    (
      koa: Context,
      owner: string,
      ability: string,
      own?: boolean,
    ) => Promise<{ caller: string; user?: AuthenticatedUser; lacks?: RuntimeError }>
  > = {
    public: async (koa) => ({ caller: koa.ip }),
    async ucan(koa) {
      const user = await byUcan(koa)
      const loading = rights.load(user.did) // what a handler may ask of the user is known without waiting
      if (loading) await loading
      return { caller: user.did, user }
    },
    async bearer(koa, owner, ability, own) {
      const key = await byKey(koa, apiKeys, owner)
      if (key) return key
      if (koa.headers['x-auth-type'] === undefined) throw keyWanted('API_KEY')
      const user = await byUcan(koa)
      const refreshing = rights.refresh(user.did)
      if (refreshing) await refreshing
      if (user.can(ability, rights.oracleDid)) return { caller: user.did, user }
      const lacks = notGranted(user, ability, rights.oracleDid)
      if (own) return { caller: user.did, user, lacks }
      throw lacks
    },
    async operator(koa, owner) {
      const key = await byKey(koa, operatorTokens, owner)
      if (key) return key
      if (options.openToLoopback && fromThisMachine(koa, options.isOwnOrigin))
        return { caller: 'operator:loopback' }
      if (koa.headers['x-auth-type'] === undefined) throw keyWanted('OPERATOR_TOKEN')
      throw forOperators(await byUcan(koa))
    },
  }

  return {
    async authorize(access, koa, owner, ability, own) {
      try {
        return await ways[access](koa, owner, ability, own)
      } catch (error) {
        await countFailure(koa, error)
        throw error
      }
    },
    async demand(user, ability, resource) {
      const aboutOracle = resource === rights.oracleDid
      if (aboutOracle) await rights.refresh(user.did)
      if (user.can(ability, resource)) return
      if (aboutOracle) throw notGranted(user, ability, resource)
      throw new RuntimeError('FORBIDDEN', `This needs the capability "${ability}".`, {
        details: { causes: user.denial(ability, resource) },
      })
    },
    async optional(koa) {
      try {
        return await byUcan(koa)
      } catch (error) {
        if (error instanceof RuntimeError && error.status < 500) return undefined
        throw error
      }
    },
    async bySocket({ invocation, delegation, ip, path, lasting }) {
      const koa = countedAs(ip)
      try {
        const user = await auth.authenticate({
          authorization: invocation === undefined ? undefined : `Bearer ${invocation}`,
          authType: 'ucan',
          delegation,
          method: 'GET',
          path,
          address: clientNetwork(ip),
        })
        koa.state.caller = user.did
        await calls(koa)
        const { did, cids, expiresAt } = user
        if (!lasting || user.via === 'delegation' || user.delegation !== 'header')
          return { did, cids, expiresAt }
        // Where a delegation authenticates by itself, it does so for as long as it is valid.
        const alone = await auth
          .authenticate({ delegation, method: 'GET', path })
          .catch(() => undefined)
        return { did, cids, expiresAt: Math.max(expiresAt, alone?.expiresAt ?? 0) }
      } catch (error) {
        await countFailure(koa, error)
        throw error
      }
    },
  }
}

/** All that a limit looks at. The request of a socket is long gone when a token comes over it. */
const countedAs = (ip: string) => ({ ip, state: {}, set: () => undefined }) as unknown as Context

/** The path as it was sent, without the query: what a bound token names. */
function pathOf({ req }: Context): string {
  const url = req.url ?? '/'
  const query = url.indexOf('?')
  return query < 0 ? url : url.slice(0, query)
}

function keyWanted(variable: string): RuntimeError {
  const { headers } = unauthorized()
  return new RuntimeError('UNAUTHORIZED', 'No valid key came with the request.', {
    hint: `Send "Authorization: Bearer <${variable}>".`,
    headers,
  })
}

/** Whoever proved who they are is told that it is not enough, whatever was granted to them. */
const forOperators = ({ did }: AuthenticatedUser) =>
  new RuntimeError('FORBIDDEN', `This is for operators, and ${did} is a user.`, {
    hint: 'Send "Authorization: Bearer <OPERATOR_TOKEN>" without X-Auth-Type.',
  })

const loopback = /^(127\.\d+\.\d+\.\d+|::1)$/
const loopbackHost = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i

/**
 * A request from this machine that no foreign page can have made: the socket is loopback, the Host is too (a page
 * that rebinds its name cannot change that), no proxy stands between, and the Origin, if any, is our own.
 */
function fromThisMachine(koa: Context, isOwnOrigin: (origin: string) => boolean): boolean {
  const { origin, host = '', 'sec-fetch-site': site } = koa.headers
  const address = koa.req.socket.remoteAddress?.replace(/^::ffff:/, '') ?? ''
  if (!loopback.test(address) || !loopbackHost.test(host)) return false
  if (wasForwarded(koa.headers)) return false
  if (origin !== undefined) return isOwnOrigin(origin)
  return site === undefined || site === 'same-origin' || site === 'none'
}
