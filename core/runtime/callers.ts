import type { Context } from 'koa'
import { RuntimeError } from '../errors.ts'
import type { Log, RouteAuth } from '../plugin.ts'
import type { Access } from './http/access.ts'
import type { LazyAuth } from './auth/lazy.ts'
import type { Keyring } from './auth/keys.ts'
import { unauthorized } from './auth/refusal.ts'
import type { AuthenticatedUser } from './auth/user.ts'
import { readEarly } from './http/body.ts'
import type { RateLimits } from './http/rate-limit.ts'

export interface CallersOptions {
  readonly auth: LazyAuth
  readonly apiKeys: Keyring
  readonly operatorTokens: Keyring
  readonly rateLimits: RateLimits
  readonly authFailuresPerMinute: number
  readonly callsPerMinute: number
  /** Outside production the operator's routes are open to this machine. */
  readonly openToLoopback: boolean
  /** Whether a browser page of this origin belongs to the server. */
  readonly isOwnOrigin: (origin: string) => boolean
  readonly log: Log
}

/**
 * Who may call a route. Failures are counted per address and successes per DID, in two buckets: whoever
 * floods with bad credentials is answered 429, and valid callers from the same address still get in.
 */
export function createCallers(options: CallersOptions): Access {
  const { auth, apiKeys, operatorTokens, rateLimits, log } = options
  const failures = rateLimits.limit('auth-failures', options.authFailuresPerMinute, 60_000)
  const calls = rateLimits.limit('calls', options.callsPerMinute, 60_000, {
    of: (koa) => koa.state.caller as string,
    what: 'calls of this DID',
  })

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
    (koa: Context, owner: string) => Promise<{ caller: string; user?: AuthenticatedUser }>
  > = {
    public: async (koa) => ({ caller: koa.ip }),
    async ucan(koa) {
      const user = await byUcan(koa)
      return { caller: user.did, user }
    },
    async bearer(koa, owner) {
      const key = await byKey(koa, apiKeys, owner)
      if (key) return key
      if (koa.headers['x-auth-type'] === undefined) throw keyWanted('API_KEY')
      const user = await byUcan(koa)
      if (user.can(`${owner}/*`)) return { caller: user.did, user }
      throw new RuntimeError('FORBIDDEN', `This needs the capability "${owner}/*".`, {
        hint: 'Use the API key, or a delegation that grants it.',
        details: { causes: user.denial(`${owner}/*`) },
      })
    },
    async operator(koa, owner) {
      const key = await byKey(koa, operatorTokens, owner)
      if (key) return key
      if (options.openToLoopback && fromThisMachine(koa, options.isOwnOrigin))
        return { caller: 'operator:loopback' }
      throw keyWanted('OPERATOR_TOKEN')
    },
  }

  return {
    async authorize(access, koa, owner) {
      try {
        return await ways[access](koa, owner)
      } catch (error) {
        // Only a caller who fails is counted, and answered 429 once it failed too often.
        if (error instanceof RuntimeError && error.status === 401) await failures(koa)
        throw error
      }
    },
    async optional(koa) {
      try {
        return await byUcan(koa)
      } catch (error) {
        if (error instanceof RuntimeError && error.status < 500) return undefined
        throw error
      }
    },
  }
}

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

const loopback = /^(127\.\d+\.\d+\.\d+|::1)$/
const loopbackHost = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i

/**
 * A request from this machine that no foreign page can have made: the socket is loopback, the Host is too (a page
 * that rebinds its name cannot change that), no proxy stands between, and the Origin, if any, is our own.
 */
function fromThisMachine(koa: Context, isOwnOrigin: (origin: string) => boolean): boolean {
  const { origin, host = '', 'x-forwarded-for': forwarded, 'sec-fetch-site': site } = koa.headers
  const address = koa.req.socket.remoteAddress?.replace(/^::ffff:/, '') ?? ''
  if (!loopback.test(address) || !loopbackHost.test(host) || forwarded !== undefined) return false
  if (origin !== undefined) return isOwnOrigin(origin)
  return site === undefined || site === 'same-origin' || site === 'none'
}
