import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import type { EnvSource } from '../../manifest/env.ts'
import { isForAuthors } from '../../manifest/environments.ts'
import type { KernelEnv } from '../../manifest/kernel-env.ts'
import type { AnyRoute, Fetch, Log, Model, RouteContext } from '../../plugin.ts'
import type { Did } from './did/did.ts'
import { lazyAuth, type LazyAuth } from './lazy.ts'
import { Cache } from '../base/cache.ts'
import { createKeyring, type Keyring } from './keys.ts'
import { credentialFinder } from './own-credentials.ts'
import { Refusal, unauthorized } from './did/refusal.ts'
import { Resolver, type DidResolver } from './did/resolver.ts'
import { signerFromMnemonic, type Signer } from './did/signer.ts'
import type { AuthenticatedUser } from './user.ts'
import { Grants } from './grants/grants.ts'
import { Delegations } from './grants/delegations.ts'
import type { Store } from '../store/store.ts'
import { runtimeVersion } from '../base/version.ts'

/** Where clients are told to find the oracle. */
export interface Addresses {
  readonly apiUrl: string
  readonly wsUrl: string
}

/** Who the oracle is, whom it believes, and what it tells of itself. */
export interface Identity {
  readonly signer: Signer | undefined
  readonly oracleDid: string
  /** Other DIDs that are the oracle's own. */
  readonly aliases: readonly string[]
  /** The keys that may sign for a DID; none where they cannot be known. */
  keysOf(did: string): Promise<readonly string[]>
  readonly auth: LazyAuth
  readonly apiKeys: Keyring
  readonly operatorTokens: Keyring
  /** What the operator has granted on the oracle's DID. */
  readonly grants: Grants
  /** Whether a text holds a key of this server or a UCAN. */
  holdsCredential(text: string): boolean
  readonly routes: Readonly<Record<string, AnyRoute>>
  /** Whether any of these links of tokens is revoked. */
  isRevoked(cids: readonly string[]): boolean | Promise<boolean>
  /** Puts the keys of a changed environment in place, without a restart. */
  reload(source: EnvSource): void
  /** Compares where we listen with what the oracle's DID document registers, and says what to change. */
  compareRegistration(addresses: Addresses): Promise<void>
  /** Begins to hear of what other servers change. */
  open(): Promise<void>
  close(): Promise<void>
}

export interface IdentityOptions {
  readonly config: KernelEnv
  readonly store: Store
  readonly fetch: Fetch
  readonly log: Log
  readonly addresses: () => Addresses
  /** Told when a user has revoked a delegation. */
  onRevoked?(did: string): void
  /** The one that answers by default. */
  readonly model: Model
  /** Who may do everything here from the start: the user of whoever writes plugins. */
  readonly author?: Did
}

const hour = 3_600_000
/** Another replica may store a delegation meanwhile; this process sees it no later than this. */
const storedLivesMs = 2_000

export function createIdentity({
  config,
  store,
  fetch,
  log,
  addresses,
  onRevoked,
  model,
  author,
}: IdentityOptions): Identity {
  const signer =
    config.ORACLE_MNEMONIC === undefined ? undefined : signerFromMnemonic(config.ORACLE_MNEMONIC)
  if (!signer)
    log.warn(
      'no signing key is loaded: every authenticated request is 401 until ORACLE_MNEMONIC is set',
    )
  const oracleDid = config.ORACLE_DID ?? signer?.did ?? 'did:key:none'
  const delegations = new Delegations({ db: store.db, kind: store.kind })
  const grants = new Grants({
    store,
    signer,
    oracleDid,
    delegations,
    log,
    first:
      author && signer
        ? {
            did: author,
            capabilities: ['*'],
            days: 30,
            note: 'the development user',
            forAuthor: true,
          }
        : undefined,
  })
  const resolver = new Resolver({ url: config.RESOLVER_URL, fetch })
  const stored = rememberStored(delegations, oracleDid)
  const aliases = [signer?.did, config.ORACLE_ENTITY_DID].filter((did) => did !== undefined)
  const auth = lazyAuth({
    signer,
    oracleDid,
    // What a token may name as its audience: the oracle's DID, its signer's, its entity's.
    aliases,
    maxTtlSeconds: config.UCAN_AUTH_MAX_TTL_SECONDS,
    delegationOnly: config.AUTH_DELEGATION_ONLY,
    resolver,
    revocations: delegations,
    replays: delegations,
    rights: grants,
    stored: stored.of,
    log,
  })
  const apiKeys = createKeyring(config.API_KEY, 'API_KEY')
  const operatorTokens = createKeyring(config.OPERATOR_TOKEN, 'OPERATOR_TOKEN')
  const sweeping = setInterval(() => {
    Promise.all([delegations.sweep(), grants.sweep()]).catch((err: unknown) =>
      log.warn({ err }, 'expired revocations and grants could not be swept'),
    )
  }, hour).unref()

  return {
    signer,
    oracleDid,
    aliases,
    async keysOf(did) {
      try {
        return (await resolver.verificationKeys(did)).keys
      } catch (error) {
        if (error instanceof Refusal) return []
        throw error
      }
    },
    auth,
    apiKeys,
    operatorTokens,
    grants,
    holdsCredential: credentialFinder([apiKeys, operatorTokens]),
    routes: {
      ...delegationRoutes({ auth, delegations, oracleDid, forget: stored.forget, onRevoked }),
      ...wellKnownRoutes({ config, signer, oracleDid, addresses, model }),
    },
    isRevoked: (cids) => delegations.isRevoked(cids),
    reload(source) {
      apiKeys.replace(source.API_KEY)
      operatorTokens.replace(source.OPERATOR_TOKEN)
      log.info(`keys reloaded: API_KEY ${named(apiKeys)}, OPERATOR_TOKEN ${named(operatorTokens)}`)
    },
    compareRegistration: (at) =>
      compareRegistration(resolver, config.ORACLE_ENTITY_DID ?? config.ORACLE_DID, at, log),
    async open() {
      if (!isForAuthors({ NODE_ENV: config.NODE_ENV })) await grants.endAuthors()
      await grants.open()
    },
    async close() {
      clearInterval(sweeping)
      await grants.close()
    },
  }
}

const named = ({ names }: Keyring) => names.join(', ') || 'none'

/** Keeps which delegation a user has stored for a moment, so that a request costs no query of its own. */
function rememberStored(delegations: Delegations, oracleDid: string) {
  const known = new Cache<{ readonly raw: string | undefined; readonly until: number }>(10_000)
  return {
    async of(user: string): Promise<string | undefined> {
      const entry = known.get(user)
      if (entry && Date.now() < entry.until) return entry.raw
      const raw = (await delegations.current(user, oracleDid))?.raw
      known.set(user, { raw, until: Date.now() + storedLivesMs })
      return raw
    },
    forget: (user: string) => known.delete(user),
  }
}

interface DelegationParts {
  readonly auth: LazyAuth
  readonly delegations: Delegations
  readonly oracleDid: string
  readonly forget: (user: string) => void
  readonly onRevoked?: (did: string) => void
}

const delegationInput = z.object({
  raw: z.string().min(1).max(6144).describe('The delegation, a CAR in base64'),
})

function delegationRoutes({
  auth,
  delegations,
  oracleDid,
  forget,
  onRevoked,
}: DelegationParts): Record<string, AnyRoute> {
  // A ucan route of the kernel: the user is the one that the kernel's own authentication made.
  const caller = (ctx: RouteContext) => ctx.user as AuthenticatedUser
  return {
    'POST /delegation': {
      summary: 'Keeps a signed delegation of the caller for this oracle.',
      input: delegationInput,
      output: z.object({ ok: z.literal(true), expiration: z.number() }),
      async run(input, ctx) {
        const { raw } = input as z.output<typeof delegationInput>
        const user = caller(ctx)
        // Whoever comes with a delegation alone may hand in that very one, and no other.
        if (user.via === 'delegation' && !user.carries(raw)) throw unauthorized()
        const verified = await auth.verifyDelegation(raw, { issuer: user.did })
        await delegations.store(user.did, oracleDid, raw, verified)
        forget(user.did)
        return { ok: true, expiration: verified.expiration }
      },
    },
    'GET /delegation': {
      summary: 'Whether a delegation of the caller is in force.',
      output: z.object({ authorized: z.boolean(), expiration: z.number().optional() }),
      async run(_, ctx) {
        const user = caller(ctx)
        const current = await delegations.current(user.did, oracleDid)
        if (!current || current.expiration * 1000 <= Date.now()) return { authorized: false }
        return { authorized: true, expiration: current.expiration }
      },
    },
    'DELETE /delegation': {
      summary: 'Revokes the caller’s delegation: it authenticates nobody any more.',
      output: z.object({ ok: z.literal(true) }),
      async run(_, ctx) {
        const user = caller(ctx)
        const header = user.delegation === 'header' ? ctx.koa.get('x-ucan-delegation') : ''
        // Read before it is revoked, for then it no longer verifies.
        const carried = header && (await auth.verifyDelegation(header, { issuer: user.did }))
        const kept = await delegations.current(user.did, oracleDid)
        // Whoever comes with a delegation alone ends that very one, and no other.
        if (kept && (user.via === 'invocation' || user.carries(kept.raw)))
          await delegations.revoke(user.did, oracleDid)
        if (carried) await delegations.revokeToken(carried)
        forget(user.did)
        onRevoked?.(user.did)
        return { ok: true }
      },
    },
  }
}

interface WellKnownParts {
  readonly config: KernelEnv
  readonly signer: Signer | undefined
  readonly oracleDid: string
  readonly addresses: () => Addresses
  readonly model: Model
}

function wellKnownRoutes({
  config,
  signer,
  oracleDid,
  addresses,
  model,
}: WellKnownParts): Record<string, AnyRoute> {
  return {
    'GET /.well-known/oracle.json': {
      auth: 'public',
      summary:
        'What clients resolve from the oracle’s DID: where it answers, its model and its price.',
      output: z.object({
        did: z.string(),
        entityDid: z.string().optional(),
        name: z.string(),
        apiUrl: z.string(),
        wsUrl: z.string(),
        model: z.string(),
        price: z.string().nullable(),
        runtime: z.string(),
      }),
      run: () => ({
        did: oracleDid,
        entityDid: config.ORACLE_ENTITY_DID,
        name: config.ORACLE_NAME,
        ...addresses(),
        model: model.id,
        price: config.ORACLE_PRICE ?? null,
        runtime: runtimeVersion,
      }),
    },
    'GET /.well-known/did.json': {
      auth: 'public',
      summary: 'The DID document of the signing key.',
      answers: { 200: ['application/did+json'] },
      run(_, { koa }) {
        if (!signer)
          throw new RuntimeError(
            'NOT_FOUND',
            'No signing key is loaded, so there is no document.',
            {
              hint: 'Set ORACLE_MNEMONIC.',
            },
          )
        koa.type = 'application/did+json'
        const alsoKnownAs = [config.ORACLE_DID, config.ORACLE_ENTITY_DID].filter(
          (did) => did !== undefined && did !== signer.did,
        )
        return signer.didDocument({ ...addresses(), alsoKnownAs: alsoKnownAs as string[] })
      },
    },
  }
}

/**
 * A newly created oracle registers port 4000 while the runtime listens on 3000: clients that follow the
 * registration then find nobody. Said at boot, with both ways out.
 */
async function compareRegistration(
  resolver: DidResolver,
  did: string | undefined,
  { apiUrl }: Addresses,
  log: Log,
) {
  if (did === undefined || did.startsWith('did:key:')) return
  const document = await resolver.document(did)
  if (!document)
    return log.warn(
      `the DID document of ${did} cannot be had, so its registered address was not compared; check RESOLVER_URL`,
    )
  const service = document.service.find(({ id }) => id === '#api' || id === `${did}#api`)
  const registered =
    typeof service?.serviceEndpoint === 'string' ? service.serviceEndpoint : undefined
  if (registered === undefined)
    return log.warn(`${did} registers no #api service: clients cannot find ${apiUrl}; register it`)
  if (sameAddress(registered, apiUrl))
    return log.info(`${did} registers ${registered}, which is this server`)
  const port = portOf(registered)
  log.warn(
    `${did} registers its #api at ${registered}, but this server tells clients ${apiUrl}. ` +
      `Set ${port ? `PORT=${port}` : 'PORT'} (or PUBLIC_URL=${registered} behind a proxy), or change the registered address to ${apiUrl}.`,
  )
}

function sameAddress(a: string, b: string): boolean {
  if (!URL.canParse(a) || !URL.canParse(b)) return a === b
  const [left, right] = [new URL(a), new URL(b)]
  const host = (url: URL) => url.hostname.replace(/^(localhost|\[::1\])$/, '127.0.0.1')
  return left.protocol === right.protocol && host(left) === host(right) && left.port === right.port
}

function portOf(address: string): string {
  return URL.canParse(address) ? new URL(address).port : ''
}
