import type { Context } from 'koa'
import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, Log, OwnCaller, RouteAuth, User } from '../../plugin.ts'
import type { Access, Proof } from '../http/routes/access.ts'
import type { LazyAuth } from './lazy.ts'
import type { Keyring } from './keys.ts'
import { isLookUpUnavailable } from './did/lookups.ts'
import { notGranted, type Rights } from './grants/rights.ts'
import type { KeyHolder, PersonalKeys } from './personal/personal-keys.ts'
import { presentedKey } from './personal/presented.ts'
import { keyPrefix } from '../base/log.ts'
import { demandOfKey, keyHasNoUser, keyTooWeak, opensWeb } from './personal/rules.ts'
import { unauthorized } from './did/refusal.ts'
import { isCallerDid } from './did/did.ts'
import type { AuthenticatedUser } from './user.ts'
import type { AuthRequest, Unproven } from './authenticate.ts'
import { userWithoutRights } from './vouched-user.ts'
import { readEarly } from '../http/read/body.ts'
import { clientNetwork } from '../http/limits/client-address.ts'
import type { RateLimits } from '../http/limits/rate-limit.ts'
import { fromThisMachine } from './loopback.ts'

/** What the check of callers is made of. */
export interface CallersOptions {
  readonly auth: LazyAuth
  readonly apiKeys: Keyring
  readonly operatorTokens: Keyring
  readonly personalKeys: PersonalKeys
  readonly rights: Rights
  readonly rateLimits: RateLimits
  readonly authFailuresPerMinute: number
  readonly callsPerMinute: number
  /** In development the operator's routes are open to this machine. */
  readonly openToLoopback: boolean
  /** Whether another server may revoke a token at any time, so that a route whose statement looks for that asks nothing before. */
  readonly provesLater?: boolean
  /** Whether a browser page of this origin belongs to the server. */
  readonly isOwnOrigin: (origin: string) => boolean
  readonly log: Log
}

/** The credentials that came over a socket instead of headers. */
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

/** Counts a caller, and throws a 429 once there were too many. */
type Limit = ReturnType<RateLimits['limit']>

/** Who was let in, as the log names the caller; `lacks` is the refusal that a route with `own` may lift. */
interface Admitted {
  readonly caller: string
  readonly user?: AuthenticatedUser
  readonly lacks?: RuntimeError
}

const minute = 60_000

/**
 * Who may call a route. Failures are counted per address and successes per DID, in two buckets: a client that floods
 * with bad credentials is answered 429, and valid callers from the same address still get in.
 */
export class Callers implements Access {
  readonly #options: CallersOptions
  readonly #failures: Limit
  readonly #lookUps: Limit
  readonly #brokenChecks: Limit
  readonly #calls: Limit

  constructor(options: CallersOptions) {
    this.#options = options
    const { rateLimits, authFailuresPerMinute, callsPerMinute } = options
    this.#failures = rateLimits.limit('auth-failures', authFailuresPerMinute, minute)
    // A failed look-up is not the caller's fault, so it has its own limit: a flood of unknown issuers costs its address something.
    this.#lookUps = rateLimits.limit('issuer-lookups', authFailuresPerMinute, minute, {
      of: (koa) => clientNetwork(koa.ip),
      what: 'issuers from this address that could not be looked up',
    })
    this.#brokenChecks = rateLimits.limit('broken-checks', authFailuresPerMinute, minute, {
      of: (koa) => clientNetwork(koa.ip),
      what: 'requests from this address whose callers could not be checked',
    })
    this.#calls = rateLimits.limit('calls', callsPerMinute, minute, {
      of: (koa) => koa.state.caller as string,
      what: 'calls of this DID',
    })
  }

  async authorize(
    access: Exclude<RouteAuth, 'own'>,
    koa: Context,
    owner: string,
    ability: string,
    own?: boolean,
  ): Promise<Admitted> {
    try {
      switch (access) {
        case 'public':
          return { caller: koa.ip }
        case 'ucan':
          return await this.#user(koa)
        case 'bearer':
          return await this.#bearer(koa, owner, ability, own)
        case 'operator':
          return await this.#operator(koa, owner)
      }
    } catch (error) {
      await this.#countFailure(koa, error)
      throw error
    }
  }

  async byPlugin(
    koa: Context,
    owner: string,
    find: () => Promise<OwnCaller | undefined>,
  ): Promise<{ caller: string; user?: User }> {
    try {
      const found = await find()
      if (found === undefined) throw notVerified(owner)
      const { caller, user } = checkedCaller(found, owner)
      koa.state.caller = caller
      return { caller, ...(user && { user: userWithoutRights(user.did) }) }
    } catch (error) {
      // No limit of the route has counted this request, so each way to fail costs the address something.
      const isRefusal = error instanceof RuntimeError && error.status < 500
      await (isRefusal ? this.#failures(koa) : this.#brokenChecks(koa))
      throw error
    }
  }

  async demand(user: User, ability: string, resource: string): Promise<void> {
    const { rights } = this.#options
    const aboutOracle = resource === rights.oracleDid
    if (aboutOracle) await rights.refresh(user.did)
    if (user.can(ability, resource)) return
    if (aboutOracle) throw notGranted(user, ability, resource)
    throw new RuntimeError('FORBIDDEN', `This needs the capability "${ability}".`, {
      details: { causes: user.denial(ability, resource) },
    })
  }

  async optional(koa: Context): Promise<AuthenticatedUser | undefined> {
    try {
      const user = await this.#person(koa)
      return opensWeb(user) ? user : undefined
    } catch (error) {
      if (error instanceof RuntimeError && error.status < 500) return undefined
      throw error
    }
  }

  /** Proves whose socket it is. The proof counts as a call does, and fails like one. */
  async bySocket({ invocation, delegation, ip, path, lasting }: SocketTokens): Promise<SocketUser> {
    const { auth } = this.#options
    const koa = countedAs(ip)
    try {
      if (invocation?.startsWith(keyPrefix)) {
        const user = await this.#byPersonalKey(koa, invocation)
        demandOfKey(user, {})
        return { did: user.did, cids: user.cids, expiresAt: user.expiresAt }
      }
      const user = await auth.authenticate({
        authorization: invocation === undefined ? undefined : `Bearer ${invocation}`,
        authType: 'ucan',
        delegation,
        method: 'GET',
        path,
        address: clientNetwork(ip),
      })
      koa.state.caller = user.did
      await this.#calls(koa)
      const { did, cids, expiresAt } = user
      if (!lasting || user.via === 'delegation' || user.delegation !== 'header')
        return { did, cids, expiresAt }
      // Where a delegation authenticates by itself, it does so for as long as it is valid.
      const alone = await auth
        .authenticate({ delegation, method: 'GET', path })
        .catch(() => undefined)
      return { did, cids, expiresAt: Math.max(expiresAt, alone?.expiresAt ?? 0) }
    } catch (error) {
      await this.#countFailure(koa, error)
      throw error
    }
  }

  demandProof(user: User | undefined, route: Pick<AnyRoute, 'signed' | 'can'>): void {
    demandOfKey(user, route)
  }

  hold(user: User | undefined, end: (reason: unknown) => void): (() => void) | undefined {
    const id = user && 'key' in user && isHolder(user.key) ? user.key.id : undefined
    return id === undefined
      ? undefined
      : this.#options.personalKeys.hold(id, () => end(unauthorized()))
  }

  async #user(koa: Context): Promise<Admitted> {
    const user = await this.#person(koa)
    // A handler asks without waiting what the user may do, so the rights are loaded before the handler runs.
    const loading = this.#options.rights.load(user.did)
    if (loading) await loading
    return { caller: user.did, user }
  }

  async #bearer(koa: Context, owner: string, ability: string, own?: boolean): Promise<Admitted> {
    const { apiKeys, rights } = this.#options
    const key = this.#byKey(koa, apiKeys, owner)
    if (key) return key
    await this.#refusePersonalKey(koa)
    if (koa.headers['x-auth-type'] === undefined) throw keyWanted('API_KEY')
    const user = await this.#byUcan(koa)
    const refreshing = rights.refresh(user.did)
    if (refreshing) await refreshing
    if (user.can(ability, rights.oracleDid)) return { caller: user.did, user }
    const lacks = notGranted(user, ability, rights.oracleDid)
    if (own) return { caller: user.did, user, lacks }
    throw lacks
  }

  async #operator(koa: Context, owner: string): Promise<Admitted> {
    const { operatorTokens, openToLoopback, isOwnOrigin } = this.#options
    const key = this.#byKey(koa, operatorTokens, owner)
    if (key) return key
    await this.#refusePersonalKey(koa)
    if (openToLoopback && fromThisMachine(koa, isOwnOrigin)) return { caller: 'operator:loopback' }
    if (koa.headers['x-auth-type'] === undefined) throw keyWanted('OPERATOR_TOKEN')
    throw forOperators(await this.#byUcan(koa))
  }

  /** The person who calls, by a personal key or by tokens. */
  async #person(koa: Context): Promise<AuthenticatedUser> {
    const key = presentedKey(koa.headers)
    if (key !== undefined) return this.#byPersonalKey(koa, key)
    const { authorization, 'x-auth-type': authType, 'x-ucan-delegation': delegation } = koa.headers
    const isAlone = authType === undefined && delegation === undefined
    if (isAlone && this.#options.apiKeys.match(authorization) !== undefined) throw keyHasNoUser()
    return this.#byUcan(koa, true)
  }

  async #byPersonalKey(koa: Context, text: string): Promise<AuthenticatedUser> {
    const { auth, personalKeys } = this.#options
    const key = await personalKeys.find(text)
    if (key === undefined) throw unauthorized()
    koa.state.caller = key.did
    await this.#calls(koa)
    return auth.byKey(key, personalKeys.cidsOf(key))
  }

  /** Says to the holder of a key that it opens no route of services or operators. A wrong key counts as wrong here, too. */
  async #refusePersonalKey(koa: Context): Promise<void> {
    const key = presentedKey(koa.headers)
    if (key === undefined) return
    await this.#byPersonalKey(koa, key)
    throw keyTooWeak('No personal key opens this: it is for services and operators.')
  }

  async #byUcan(koa: Context, loads = false): Promise<AuthenticatedUser> {
    const { auth, provesLater } = this.#options
    const { req } = koa
    const { authorization, 'x-auth-type': authType, 'x-ucan-delegation': delegation } = req.headers
    const request = {
      authorization,
      authType: single(authType),
      delegation: single(delegation),
      method: koa.method,
      path: pathOf(koa),
      body: () => readEarly(req),
      address: clientNetwork(koa.ip),
    }
    const known = provesLater && mayProveLater(koa) ? auth.familiar(request) : undefined
    if (known) koa.state.proof = this.#proof(koa, request, known)
    const user = known?.user ?? (await auth.authenticate(request))
    koa.state.caller = user.did
    const counted = this.#calls(koa)
    if (counted) await counted
    // Two questions to the database at once, where this process does not know both answers.
    const loading = loads ? this.#options.rights.load(user.did) : undefined
    const whole = user.delegation ? user : auth.withDelegation(user)
    if (loading) await loading
    return whole
  }

  /** What is left to prove of a user whom this process knows: the whole proof once more, which fails like any other. */
  #proof(koa: Context, request: AuthRequest, { cids }: Unproven): Proof {
    let proving: Promise<unknown> | undefined
    const prove = async () => {
      try {
        await this.#options.auth.authenticate(request)
      } catch (error) {
        await this.#countFailure(koa, error)
        throw error
      }
    }
    return {
      cids,
      demand: async () => void (await (proving ??= prove())),
      given: () => void (proving = Promise.resolve()),
    }
  }

  #byKey(koa: Context, keys: Keyring, owner: string): Admitted | undefined {
    const { authorization, 'x-auth-type': authType } = koa.headers
    const name = authType === undefined ? keys.match(authorization) : undefined
    if (name === undefined) return undefined
    this.#options.log.debug({ key: name, owner }, 'a key was used')
    return { caller: `key:${name}` }
  }

  /** Counts a failed credential, or a failed look-up, and throws a 429 after too many. No other error counts here. */
  async #countFailure(koa: Context, error: unknown): Promise<void> {
    if (isLookUpUnavailable(error)) await this.#lookUps(koa)
    else if (error instanceof RuntimeError && error.status === 401) await this.#failures(koa)
  }
}

const isHolder = (key: unknown): key is KeyHolder =>
  typeof key === 'object' && key !== null && 'id' in key

/** A header that has one value: the edge refuses these when they come twice. */
const single = (header: string | readonly string[] | undefined): string | undefined =>
  typeof header === 'string' ? header : undefined

/** As much of a context as a limit reads: when a token comes over a socket, the request that opened the socket is gone. */
const countedAs = (ip: string) => ({ ip, state: {}, set: () => undefined }) as unknown as Context

/** What was answered before under an Idempotency-Key is answered again without the handler, so its caller is proved first. */
const mayProveLater = ({ state, headers }: Context): boolean =>
  state.provesLater === true && headers['idempotency-key'] === undefined

/** The path as it was sent, without the query: what a bound token names. */
function pathOf({ req }: Context): string {
  const url = req.url ?? '/'
  const query = url.indexOf('?')
  return query < 0 ? url : url.slice(0, query)
}

const longestCaller = 200

/** What a plugin's own check says must be a name and, where there is a user, a DID: anything else is the plugin's fault. */
function checkedCaller(found: OwnCaller, owner: string): OwnCaller {
  const { caller, user } = found
  if (typeof caller !== 'string' || caller === '' || caller.length > longestCaller)
    throw new Error(`verify of ${owner} returned no "caller" of 1 to ${longestCaller} characters.`)
  // PostgreSQL refuses a NUL and stores every lone surrogate as the same character, so two callers would share their keys.
  if (/[\p{Cc}\p{Cs}]/u.test(caller))
    throw new Error(
      `verify of ${owner} returned a "caller" with a control character or half of a character.`,
    )
  if (user !== undefined && !(typeof user?.did === 'string' && isCallerDid(user.did)))
    throw new Error(`verify of ${owner} returned a user whose "did" is no DID of a caller.`)
  return found
}

const notVerified = (owner: string) =>
  new RuntimeError(
    'UNAUTHORIZED',
    `${owner} does not accept what the request brings as its proof.`,
    {
      headers: { 'WWW-Authenticate': `${owner}-own` },
    },
  )

function keyWanted(variable: string): RuntimeError {
  const { headers } = unauthorized()
  return new RuntimeError('UNAUTHORIZED', 'No valid key came with the request.', {
    hint: `Send "Authorization: Bearer <${variable}>".`,
    headers,
  })
}

/** The refusal of a user at an operator's route: no grant opens such a route. */
const forOperators = ({ did }: AuthenticatedUser) =>
  new RuntimeError('FORBIDDEN', `This is for operators, and ${did} is a user.`, {
    hint: 'Send "Authorization: Bearer <OPERATOR_TOKEN>" without X-Auth-Type.',
  })
