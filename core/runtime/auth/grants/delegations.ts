import type { Kysely } from 'kysely'
import type { Database, Migration } from '../../../plugin.ts'
import type { Did } from '../did/did.ts'
import { Cache } from '../../base/cache.ts'
import type { ReplayAnswer, Replays } from '../token/replays.ts'

/** One delegation of a token, and until when its revocation has to be remembered. */
export interface RevocableLink {
  readonly cid: string
  /** Seconds since 1970. */
  readonly expiration: number
}

/** What `POST /delegation` stores beside the token. */
export interface VerifiedDelegation {
  readonly issuer: Did
  /** Seconds since 1970, the earliest of the chain. */
  readonly expiration: number
  readonly cids: readonly string[]
  /** The links that the issuer signed himself, which are his to revoke. */
  readonly revocable: readonly RevocableLink[]
  readonly capabilities: readonly { readonly can: string; readonly with: string }[]
}

/** The tables behind `/delegation`. Times are seconds since 1970, as UCANs have them. */
type Tables = {
  kernel_delegations: {
    user_did: string
    oracle_did: string
    raw: string
    /** What a revocation ends: the links of the token that the user signed, as JSON. */
    revocable: string
    // PostgreSQL returns a bigint as text
    expires_at: number | string
  }
  kernel_revocations: { cid: string; expires_at: number | string }
  kernel_used_tokens: { key: string; expires_at: number | string }
}

/** The tables of delegations, revocations and used tokens; older databases get these names by `kernelNamesMigration`. */
export const delegationMigrations: Readonly<Record<string, Migration>> = {
  '001-delegations': async (db) => {
    await db.schema
      .createTable('kernel_delegations')
      .addColumn('user_did', 'text', (column) => column.notNull())
      .addColumn('oracle_did', 'text', (column) => column.notNull())
      .addColumn('raw', 'text', (column) => column.notNull())
      .addColumn('revocable', 'text', (column) => column.notNull())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('kernel_delegations_pk', ['user_did', 'oracle_did'])
      .execute()
    await db.schema
      .createTable('kernel_revocations')
      .addColumn('cid', 'text', (column) => column.primaryKey())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('kernel_used_tokens')
      .addColumn('key', 'text', (column) => column.primaryKey())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .execute()
  },
}

/** A delegation as it was posted. */
interface StoredDelegation {
  readonly raw: string
  /** Seconds since 1970. */
  readonly expiration: number
}

/** How many CIDs the memory of revocations holds. */
const mostRemembered = 20_000

/** How many links of one user a revocation ends: two for each of his newest fifty devices. */
const mostLinks = 100

/**
 * Delegations and revocations in the database. On SQLite this process is the only writer, so what it
 * has read stays true until it writes. On PostgreSQL another replica may revoke at any time: there
 * only a revocation is remembered, never its absence, and it holds everywhere at once.
 */
export class Delegations implements Replays {
  readonly #db: Database
  readonly #tables: Kysely<Tables>
  readonly #now: () => number
  readonly #isOnlyWriter: boolean
  readonly #revoked = new Cache<boolean>(mostRemembered)
  /** Counts the revocations made here, so that an answer which was read before one is not remembered after it. */
  #revocations = 0

  constructor({
    db,
    kind,
    now = Date.now,
  }: {
    readonly db: Database
    readonly kind: 'sqlite' | 'postgres'
    readonly now?: () => number
  }) {
    this.#db = db
    this.#tables = db.withTables<Tables>()
    this.#now = now
    this.#isOnlyWriter = kind === 'sqlite'
  }

  /**
   * Keeps the delegation of a user for an oracle, in place of an earlier one. The links of the earlier ones are kept as well, so
   * that a revocation ends what the user signed on every device.
   */
  async store(
    user: string,
    oracle: string,
    raw: string,
    { expiration, revocable }: VerifiedDelegation,
  ): Promise<void> {
    const time = Math.floor(this.#now() / 1000)
    await this.#tables.transaction().execute(async (transaction) => {
      const before = await transaction
        .selectFrom('kernel_delegations')
        .select('revocable')
        .where('user_did', '=', user)
        .where('oracle_did', '=', oracle)
        .$if(!this.#isOnlyWriter, (query) => query.forUpdate())
        .executeTakeFirst()
      const earlier: RevocableLink[] = JSON.parse(before?.revocable ?? '[]') // written below
      const known = new Set(revocable.map(({ cid }) => cid))
      const links = [
        ...revocable,
        ...earlier.filter(({ cid, expiration: end }) => end > time && !known.has(cid)),
      ].slice(0, mostLinks)
      const row = { raw, revocable: JSON.stringify(links), expires_at: expiration }
      await transaction
        .insertInto('kernel_delegations')
        .values({ user_did: user, oracle_did: oracle, ...row })
        .onConflict((conflict) => conflict.columns(['user_did', 'oracle_did']).doUpdateSet(row))
        .execute()
    })
  }

  /** The delegation that is kept of a user, expired or not. */
  async current(user: string, oracle: string): Promise<StoredDelegation | undefined> {
    const row = await this.#tables
      .selectFrom('kernel_delegations')
      .select(['raw', 'expires_at'])
      .where('user_did', '=', user)
      .where('oracle_did', '=', oracle)
      .executeTakeFirst()
    return row && { raw: row.raw, expiration: Number(row.expires_at) }
  }

  /** Forgets the kept delegation of a user and revokes its links. False when there was none. */
  async revoke(user: string, oracle: string): Promise<boolean> {
    const links = await this.#tables.transaction().execute(async (transaction) => {
      const row = await transaction
        .deleteFrom('kernel_delegations')
        .where('user_did', '=', user)
        .where('oracle_did', '=', oracle)
        .returning('revocable')
        .executeTakeFirst()
      if (!row) return undefined
      const found = JSON.parse(row.revocable) as RevocableLink[] // written by `store`
      await record(transaction, found)
      return found
    })
    this.#remember(links ?? [])
    return links !== undefined
  }

  /** Revokes a delegation that is not kept, such as the one in the header of the request. */
  async revokeToken({ revocable }: VerifiedDelegation): Promise<void> {
    await record(this.#tables, revocable)
    this.#remember(revocable)
  }

  /** Revokes these links, together with what `also` writes. */
  async revokeLinks(
    links: readonly RevocableLink[],
    also: (within: Database) => Promise<void>,
  ): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      await record(transaction.withTables<Tables>(), links)
      await also(transaction)
    })
    this.#remember(links)
  }

  /** Whether any of these CIDs is revoked. */
  isRevoked(cids: readonly string[]): boolean | Promise<boolean> {
    let unknown = false
    for (const cid of cids) {
      const known = this.#revoked.get(cid)
      if (known) return true
      unknown ||= known === undefined
    }
    return unknown ? this.#ask(cids) : false
  }

  async claim(key: string, expiresAt: number): Promise<ReplayAnswer> {
    const inserted = await this.#tables
      .insertInto('kernel_used_tokens')
      .values({ key, expires_at: Math.ceil(expiresAt / 1000) })
      .onConflict((conflict) => conflict.column('key').doNothing())
      .returning('key')
      .executeTakeFirst()
    return inserted ? 'first' : 'used'
  }

  /** Drops the rows of expired tokens: such a token is refused for its expiry alone. */
  async sweep(): Promise<void> {
    const time = Math.floor(this.#now() / 1000)
    await this.#tables.deleteFrom('kernel_revocations').where('expires_at', '<=', time).execute()
    await this.#tables.deleteFrom('kernel_used_tokens').where('expires_at', '<=', time).execute()
  }

  async #ask(cids: readonly string[]): Promise<boolean> {
    const before = this.#revocations
    const rows = await this.#tables
      .selectFrom('kernel_revocations')
      .select('cid')
      .where('cid', 'in', cids)
      .execute()
    const found = new Set(rows.map((row) => row.cid))
    const isCertain = this.#isOnlyWriter && before === this.#revocations
    for (const cid of cids) if (isCertain || found.has(cid)) this.#revoked.set(cid, found.has(cid))
    return found.size > 0
  }

  #remember(links: readonly RevocableLink[]): void {
    this.#revocations++
    for (const { cid } of links) this.#revoked.set(cid, true)
  }
}

async function record(within: Kysely<Tables>, links: readonly RevocableLink[]): Promise<void> {
  await within
    .insertInto('kernel_revocations')
    .values(links.map(({ cid, expiration }) => ({ cid, expires_at: expiration })))
    .onConflict((conflict) => conflict.column('cid').doNothing())
    .execute()
}
