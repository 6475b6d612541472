import { type QueryExecutorProvider, sql } from 'kysely'
import { type EnvSource, isForAuthors } from '../../manifest/env.ts'
import type { KernelEnv } from '../../manifest/kernel-env.ts'
import type { Fetch, Log } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import type { Did } from './did/did.ts'
import { Refusal } from './did/refusal.ts'
import { Resolver, type DidResolver } from './did/resolver.ts'
import { signerFromMnemonic, type Signer } from './did/signer.ts'
import { Delegations } from './grants/delegations.ts'
import { Grants } from './grants/grants.ts'
import { Keyring } from './keys.ts'
import { LazyAuth } from './lazy.ts'
import { PersonalKeys } from './personal/personal-keys.ts'
import { credentialFinder } from './own-credentials.ts'
import { type Addresses, compareRegistration } from './registration.ts'
import { StoredDelegations } from './stored-delegations.ts'

/** What the identity of an oracle is made of. */
export interface IdentityOptions {
  readonly config: KernelEnv
  readonly store: Store
  readonly fetch: Fetch
  readonly log: Log
  /** The user of the author of plugins, who may do everything here from the start. */
  readonly author?: Did
}

const hour = 3_600_000

/** The oracle's own DIDs and key, and everything that checks the credentials of callers. */
export class Identity {
  readonly signer: Signer | undefined
  readonly oracleDid: string
  /** Other DIDs that are the oracle's own. */
  readonly aliases: readonly string[]
  readonly auth: LazyAuth
  readonly apiKeys: Keyring
  readonly operatorTokens: Keyring
  readonly delegations: Delegations
  /** Which delegations users have posted. */
  readonly stored: StoredDelegations
  /** What the operator has granted on the oracle's DID. */
  readonly grants: Grants
  /** The keys that people have made for programs of theirs. */
  readonly personalKeys: PersonalKeys
  /** Whether a text holds a key of this server or a UCAN. */
  readonly holdsCredential: (text: string) => boolean
  readonly #config: KernelEnv
  readonly #log: Log
  readonly #resolver: DidResolver
  readonly #sweeping: NodeJS.Timeout

  constructor({ config, store, fetch, log, author }: IdentityOptions) {
    this.#config = config
    this.#log = log
    const { ORACLE_MNEMONIC: words, ORACLE_ENTITY_DID: entity } = config
    const signer = words === undefined ? undefined : signerFromMnemonic(words)
    if (!signer)
      log.warn(
        'no signing key is loaded: every authenticated request is 401 until ORACLE_MNEMONIC is set',
      )
    const oracleDid = config.ORACLE_DID ?? signer?.did ?? 'did:key:none'
    const delegations = new Delegations({ db: store.db, kind: store.kind })
    const first = author && signer ? authorsGrant(author) : undefined
    this.signer = signer
    this.oracleDid = oracleDid
    this.aliases = [signer?.did, entity].filter((did) => did !== undefined)
    this.delegations = delegations
    this.stored = new StoredDelegations(delegations, oracleDid)
    this.grants = new Grants({ store, signer, oracleDid, delegations, log, first })
    this.personalKeys = new PersonalKeys({ store, delegations, log })
    this.#resolver = new Resolver({ url: config.RESOLVER_URL, fetch })
    this.auth = new LazyAuth({
      signer,
      oracleDid,
      // What a token may name as its audience: the oracle's DID, its signer's, its entity's.
      aliases: this.aliases,
      maxTtlSeconds: config.UCAN_AUTH_MAX_TTL_SECONDS,
      delegationOnly: config.AUTH_DELEGATION_ONLY,
      resolver: this.#resolver,
      revocations: delegations,
      replays: delegations,
      rights: this.grants,
      stored: (user) => this.stored.of(user),
      log,
    })
    this.apiKeys = new Keyring(config.API_KEY, 'API_KEY')
    this.operatorTokens = new Keyring(config.OPERATOR_TOKEN, 'OPERATOR_TOKEN')
    this.holdsCredential = credentialFinder([this.apiKeys, this.operatorTokens])
    this.#sweeping = setInterval(() => void this.#sweep(), hour).unref()
  }

  /** Every DID of the oracle's own, the one that it goes by first. */
  get ownDids(): readonly string[] {
    return [this.oracleDid, ...this.aliases]
  }

  /** The keys that may sign for a DID; none where the DID has no known keys. */
  async keysOf(did: string): Promise<readonly string[]> {
    try {
      return (await this.#resolver.verificationKeys(did)).keys
    } catch (error) {
      if (error instanceof Refusal) return []
      throw error
    }
  }

  /** Whether any of these links of tokens is revoked. */
  isRevoked(cids: readonly string[]): boolean | Promise<boolean> {
    return this.delegations.isRevoked(cids)
  }

  /** Whether a user has ever left a delegation here, or was granted something. */
  async knows(db: QueryExecutorProvider, did: string): Promise<boolean> {
    const { rows } = await sql`select 1 where
      exists (select 1 from kernel_delegations where user_did = ${did}) or
      exists (select 1 from kernel_grants where did = ${did})`.execute(db)
    return rows.length > 0
  }

  /** Puts the keys of a changed environment in place, without a restart. */
  reload(source: EnvSource): void {
    this.apiKeys.replace(source.API_KEY)
    this.operatorTokens.replace(source.OPERATOR_TOKEN)
    const [api, operator] = [namesOf(this.apiKeys), namesOf(this.operatorTokens)]
    this.#log.info(`keys reloaded: API_KEY ${api}, OPERATOR_TOKEN ${operator}`)
  }

  /** Compares where the server listens with what the oracle's DID document registers, and says what to change. */
  compareRegistration(at: Addresses): Promise<void> {
    const { ORACLE_ENTITY_DID, ORACLE_DID } = this.#config
    return compareRegistration(this.#resolver, ORACLE_ENTITY_DID ?? ORACLE_DID, at, this.#log)
  }

  /** Begins to hear of what other servers change. */
  async open(): Promise<void> {
    if (!isForAuthors({ NODE_ENV: this.#config.NODE_ENV })) await this.grants.endAuthors()
    await this.grants.open()
    await this.personalKeys.open()
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping)
    await this.personalKeys.close()
    await this.grants.close()
  }

  async #sweep(): Promise<void> {
    try {
      await Promise.all([this.delegations.sweep(), this.grants.sweep(), this.personalKeys.sweep()])
    } catch (err) {
      this.#log.warn({ err }, 'expired revocations, grants and keys could not be swept')
    }
  }
}

const namesOf = ({ names }: Keyring): string => names.join(', ') || 'none'

const authorsGrant = (did: Did) => ({
  did,
  capabilities: ['*'],
  days: 30,
  note: 'the development user',
  forAuthor: true,
})
