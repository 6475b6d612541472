import { randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import { covers } from '../../../manifest/abilities.ts'
import type { Database, Log, Migration } from '../../../plugin.ts'
import type { Store } from '../../store/store.ts'
import { Cache } from '../../base/cache.ts'
import type { Delegations } from './delegations.ts'
import type { Did } from '../did/did.ts'
import type { Rights } from './rights.ts'
import {
  activeGrants,
  type Grant,
  grantOf,
  grantsInForce,
  type GrantRow,
  type GrantTables,
  maxActive,
  sameGrant,
} from './rows.ts'
import type { Signer } from '../did/signer.ts'

/** Creates the table of grants. */
export const grantsMigration: Migration = async (db) => {
  await db.schema
    .createTable('kernel_grants')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('oracle_did', 'text', (column) => column.notNull())
    .addColumn('did', 'text', (column) => column.notNull())
    .addColumn('capabilities', 'text', (column) => column.notNull())
    .addColumn('car', 'text', (column) => column.notNull())
    .addColumn('note', 'text')
    .addColumn('for_author', 'integer', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .addColumn('revoked_at', 'bigint')
    .execute()
  await db.schema
    .createIndex('kernel_grants_by_did')
    .on('kernel_grants')
    .columns(['oracle_did', 'did', 'created_at'])
    .execute()
  await db.schema
    .createIndex('kernel_grants_by_age')
    .on('kernel_grants')
    .columns(['oracle_did', 'created_at', 'id'])
    .execute()
}

/** What an operator grants: the schema has checked it. */
export interface GrantRequest {
  readonly did: Did
  readonly capabilities: readonly string[]
  readonly days: number
  readonly note?: string
  /** Ends as soon as a server of this database serves others. */
  readonly forAuthor?: boolean
}

/** A page of grants, and where the next one begins. */
interface GrantPage {
  readonly items: readonly Grant[]
  readonly nextCursor?: string
}

/** What the grants need: where they are kept, and the key that signs them. */
interface GrantsOptions {
  readonly store: Pick<Store, 'db' | 'kind' | 'listen' | 'notify'>
  readonly signer: Signer | undefined
  readonly oracleDid: string
  readonly delegations: Pick<Delegations, 'revokeLinks'>
  readonly log: Log
  /** Granted before the grants are first read, and not at the start: the code for signing is heavy to import. */
  readonly first?: GrantRequest
  readonly now?: () => number
}

/** A row that nobody has read back: its times are still numbers. */
type NewRow = GrantRow & { readonly expires_at: number }

/** What this process has read of one DID. */
interface Held {
  readonly grants: readonly { readonly abilities: readonly string[]; readonly until: number }[]
  /** Milliseconds since 1970; until when `load` need not read the grants anew. */
  readonly fresh: number
  /** The number of the reading. Readings may end in another order than they began: the one that began last counts. */
  readonly reading: number
}

const channel = 'kernel_grants'
/** Beside the DID, so that PostgreSQL makes the grants of one DID wait for each other and for nothing else. */
const grantsLock = 7023
const dayMs = 86_400_000
const maxHeld = 20_000
/** How long a grant stands in the list after its end. */
const keptMs = 30 * dayMs
/** On PostgreSQL another server may have changed grants meanwhile, and its message may be lost. */
const freshMs = 2_000

/**
 * What the operator has granted on the oracle's DID. On SQLite this process is the only writer, so what it has read
 * stays true until it writes. On PostgreSQL every decision reads anew, so a revocation holds at once everywhere.
 */
export class Grants implements Rights {
  readonly oracleDid: string
  readonly #options: GrantsOptions
  readonly #tables: Kysely<GrantTables>
  /** Whether this process is the only writer, as it is on SQLite. */
  readonly #isOnlyWriter: boolean
  readonly #now: () => number
  readonly #held = new Cache<Held>(maxHeld)
  readonly #inForce: ReturnType<typeof grantsInForce>
  #readings = 0
  #first: Promise<void> | undefined
  #stopListening: (() => Promise<void>) | undefined

  constructor(options: GrantsOptions) {
    this.#options = options
    this.oracleDid = options.oracleDid
    this.#tables = options.store.db.withTables<GrantTables>()
    this.#inForce = grantsInForce(this.#tables)
    this.#isOnlyWriter = options.store.kind === 'sqlite'
    this.#now = options.now ?? Date.now
  }

  /** Begins to hear of what other servers change. */
  async open(): Promise<void> {
    if (this.#isOnlyWriter) return
    const { store, log } = this.#options
    const again = (did: string) => {
      if (this.#held.get(did) === undefined) return
      this.#read(did).catch((err: unknown) => log.warn({ err }, 'grants could not be read anew'))
    }
    // After a gap nothing has to be done: what was read is fresh for two seconds at most.
    this.#stopListening = await store.listen(channel, again)
  }

  async close(): Promise<void> {
    await this.#stopListening?.()
  }

  /** Makes the first grant, once. The server works without the grant too, so a fault only goes to the log. */
  warm(): Promise<void> {
    const { first, log } = this.#options
    this.#first ??=
      first === undefined
        ? Promise.resolve()
        : this.issue(first).then(
            () => undefined,
            (err: unknown) => log.warn({ err }, `nothing was granted to ${first.did}`),
          )
    return this.#first
  }

  granted(did: string, ability: string): boolean {
    const time = this.#now()
    const held = this.#held.get(did)
    return (
      held?.grants.some(
        ({ abilities, until }) => time < until && abilities.some((each) => covers(each, ability)),
      ) ?? false
    )
  }

  load(did: string): void | Promise<void> {
    if (this.#isFirst(did)) return this.warm().then(() => this.refresh(did))
    const held = this.#held.get(did)
    if (held === undefined || held.fresh <= this.#now()) return this.#read(did)
  }

  refresh(did: string): void | Promise<void> {
    if (this.#isFirst(did)) return this.warm().then(() => this.refresh(did))
    if (!this.#isOnlyWriter || this.#held.get(did) === undefined) return this.#read(did)
  }

  /** Grants, or finds the same grant where it is in force for about as long. */
  async issue({ did, capabilities, days, note, forAuthor = false }: GrantRequest): Promise<{
    readonly grant: Grant
    readonly isNew: boolean
  }> {
    const { signer } = this.#options
    if (!signer)
      throw new RuntimeError(
        'UNAVAILABLE',
        'No signing key is loaded, so nothing can be granted.',
        {
          hint: 'Set ORACLE_MNEMONIC and start again.',
        },
      )
    const time = this.#now()
    const until = Math.floor((time + days * dayMs) / 1000) * 1000
    const abilities = [...capabilities].sort()
    const wanted = { did, capabilities: JSON.stringify(abilities), for_author: Number(forAuthor) }
    const found = sameGrant(await this.#active(did), wanted, until)
    if (found) return this.#found(found)
    const { mint } = await import('./mint.ts') // ucanto is heavy, and most servers never grant
    const { cid, car } = await mint(signer, {
      audience: did,
      abilities,
      resource: this.oracleDid as Did, // the configuration's schema has checked it
      expiration: until / 1000,
      nonce: randomBytes(9).toString('base64url'), // the same grant again is another delegation, with another CID
    })
    const row = {
      id: cid,
      oracle_did: this.oracleDid,
      ...wanted,
      car,
      note: note ?? null,
      created_at: time,
      expires_at: until,
      revoked_at: null,
    }
    const earlier = await this.#insert(row)
    if (earlier) return this.#found(earlier)
    await this.#changed(did)
    return { grant: this.#shown(row), isNew: true }
  }

  /**
   * Keeps a new grant, unless another request made the same one since the first look: then that one is returned. The
   * requests for one DID come here one after the other, on every server.
   */
  #insert(row: NewRow): Promise<GrantRow | undefined> {
    const { did } = row
    return this.#tables.transaction().execute(async (trx) => {
      // On SQLite the transaction itself begins with the write lock of the file.
      if (!this.#isOnlyWriter)
        await sql`select pg_advisory_xact_lock(${grantsLock}::int, hashtext(${did}))`.execute(trx)
      const active = await activeGrants(trx, this.oracleDid, did, this.#now())
      const same = sameGrant(active, row, row.expires_at)
      if (same) return same
      demandPlace(did, active.length)
      await trx.insertInto('kernel_grants').values(row).execute()
      return undefined
    })
  }

  /** The answer for a grant that is there: the request that made it may not have read it anew yet. */
  async #found(row: GrantRow) {
    await this.#read(row.did)
    return { grant: this.#shown(row), isNew: false }
  }

  /** Grants, the newest first. */
  async list(about: {
    readonly did?: string
    readonly limit: number
    readonly cursor?: { readonly createdAt: number; readonly id: string }
  }): Promise<GrantPage> {
    const { did, limit, cursor } = about
    let query = this.#tables
      .selectFrom('kernel_grants')
      .selectAll()
      .where('oracle_did', '=', this.oracleDid)
    if (did !== undefined) query = query.where('did', '=', did)
    if (cursor)
      query = query.where((where) =>
        where.or([
          where('created_at', '<', cursor.createdAt),
          where.and([where('created_at', '=', cursor.createdAt), where('id', '<', cursor.id)]),
        ]),
      )
    const rows = await query
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(limit + 1)
      .execute()
    const page = rows.slice(0, limit)
    const last = rows.length > limit ? page.at(-1) : undefined
    return {
      items: page.map((row) => this.#shown(row)),
      ...(last && { nextCursor: `${Number(last.created_at)}.${last.id}` }),
    }
  }

  /**
   * Ends a grant, and every other one of the same capabilities to the same DID: whoever ends a grant means what it
   * opens. What was re-delegated from them ends with them. Undefined when there is none of this id.
   */
  async revoke(id: string): Promise<Grant | undefined> {
    const row = await this.#tables
      .selectFrom('kernel_grants')
      .selectAll()
      .where('id', '=', id)
      .where('oracle_did', '=', this.oracleDid)
      .executeTakeFirst()
    if (!row) return undefined
    const time = this.#now()
    // A second revocation of the same grant ends nothing that was granted since.
    if (row.revoked_at !== null) return this.#shown(row)
    const alike = (await this.#active(row.did)).filter(
      (each) => each.capabilities === row.capabilities,
    )
    const ended = alike.some((each) => each.id === id) ? alike : [...alike, row]
    await this.#end(ended, time)
    await this.#changed(row.did)
    return this.#shown({ ...row, revoked_at: time })
  }

  /** Ends all grants of a DID. Everything that was re-delegated from them ends too. */
  async endAll(did: string): Promise<void> {
    const rows = await this.#active(did)
    if (rows.length > 0) await this.#end(rows, this.#now())
    await this.#changed(did)
  }

  /** Ends the grants that were made for trying things out: a server for others honours none of them. */
  async endAuthors(): Promise<void> {
    const rows = await this.#tables
      .selectFrom('kernel_grants')
      .selectAll()
      .where('oracle_did', '=', this.oracleDid)
      .where('for_author', '=', 1)
      .where('revoked_at', 'is', null)
      .where('expires_at', '>', this.#now())
      .execute() // as many as the machine of one author made in 30 days
    if (rows.length > 0) await this.#end(rows, this.#now())
  }

  /** Deletes the grants that ended a while ago. */
  async sweep(): Promise<void> {
    const before = this.#now() - keptMs
    await this.#tables
      .deleteFrom('kernel_grants')
      .where((where) =>
        where.or([where('expires_at', '<', before), where('revoked_at', '<', before)]),
      )
      .execute()
  }

  async #end(rows: readonly GrantRow[], time: number): Promise<void> {
    const links = rows.map(({ id, expires_at }) => ({
      cid: id,
      expiration: Number(expires_at) / 1000,
    }))
    await this.#options.delegations.revokeLinks(links, async (trx) => {
      await trx
        .withTables<GrantTables>()
        .updateTable('kernel_grants')
        .set({ revoked_at: time })
        .where(
          'id',
          'in',
          links.map(({ cid }) => cid),
        )
        .where('revoked_at', 'is', null)
        .execute()
    })
  }

  #isFirst(did: string): boolean {
    return this.#first === undefined && did === this.#options.first?.did
  }

  async #changed(did: string): Promise<void> {
    const { store, log } = this.#options
    await this.#read(did)
    if (this.#isOnlyWriter) return
    // The other servers read anew before every decision; the message is for what they ask between decisions.
    store
      .notify(channel, did)
      .catch((err: unknown) => log.debug({ err }, 'Other servers were not told of a grant'))
  }

  async #read(did: string): Promise<void> {
    const reading = ++this.#readings
    const { rows } = await this.#inForce({ oracle: this.oracleDid, did, now: this.#now() })
    const held = this.#held.get(did)
    if (held && held.reading > reading) return
    this.#held.set(did, {
      grants: rows.map((row) => ({
        abilities: JSON.parse(row.capabilities), // written by `issue`
        until: Number(row.expires_at),
      })),
      fresh: this.#isOnlyWriter ? Infinity : this.#now() + freshMs,
      reading,
    })
  }

  #active(did: string): Promise<GrantRow[]> {
    return activeGrants(this.#tables, this.oracleDid, did, this.#now())
  }

  #shown(row: GrantRow): Grant {
    return grantOf(row, this.#now())
  }
}

function demandPlace(did: string, active: number): void {
  if (active < maxActive) return
  throw new RuntimeError('CONFLICT', `${did} has ${active} grants in force already.`, {
    hint: 'End some of them: GET /grants?did= lists them, DELETE /grants/:id ends one.',
  })
}
