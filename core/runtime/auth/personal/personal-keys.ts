import { hash, randomBytes, randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { Log } from '../../../plugin.ts'
import { isPersonalKey, keyPrefix } from '../../base/log.ts'
import { Cache } from '../../base/cache.ts'
import type { Store } from '../../store/store.ts'
import { type Did, isCallerDid } from '../did/did.ts'
import type { Delegations } from '../grants/delegations.ts'
import type { KeyTables } from './tables.ts'

/** What a personal key may open: talking with the agent, calling tools without it, and approving such calls. */
export const keyAbilities = ['oracle/call', 'tools/call', 'tools/approve'] as const

/** One of them. */
export type KeyAbility = (typeof keyAbilities)[number]

/** Whether an ability is one that keys have. */
export const isKeyAbility = (ability: string): boolean =>
  keyAbilities.some((each) => each === ability)

/** What somebody wants a key for: the schema has checked it. */
export interface KeyRequest {
  readonly name: string
  readonly days: number
  readonly can: readonly KeyAbility[]
}

/** A key as its owner sees it after the making. */
interface ShownKey {
  readonly id: string
  readonly name: string
  readonly can: readonly string[]
  readonly createdAt: string
  readonly expiresAt: string
  /** To the minute. */
  readonly lastUsedAt?: string
}

/** Whom a key proves. */
export interface KeyHolder {
  readonly id: string
  readonly did: Did
  readonly can: readonly string[]
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

interface PersonalKeysOptions {
  readonly store: Pick<Store, 'db' | 'kind' | 'listen' | 'notify'>
  readonly delegations: Pick<Delegations, 'revokeLinks'>
  readonly log: Log
  readonly now?: () => number
}

const channel = 'kernel_keys'
/** Beside the DID, so that PostgreSQL makes the keys of one DID wait for each other. */
const keysLock = 7031
const mostKeys = 50
const dayMs = 86_400_000
const minuteMs = 60_000
const mostRemembered = 20_000

/** By what the sockets and streams of a key are found when it ends, as those of a token are by its links. */
const linkOf = (id: string): string => `key:${id}`

/**
 * The keys that people make for their own programs. A key is kept as its hash: of 32 random bytes nobody finds the
 * original, however fast the hash. Every request reads the table, so that a key which was ended opens nothing any more on any replica.
 */
export class PersonalKeys {
  readonly #options: PersonalKeysOptions
  readonly #tables: Kysely<KeyTables>
  readonly #now: () => number
  /** The minute in which this process last wrote down that a key was used. */
  readonly #used = new Cache<number>(mostRemembered)
  /** What ends with each key: the open streams of this process. */
  readonly #held = new Map<string, Set<() => void>>()
  #stopListening: (() => Promise<void>) | undefined

  constructor(options: PersonalKeysOptions) {
    this.#options = options
    this.#tables = options.store.db.withTables<KeyTables>()
    this.#now = options.now ?? Date.now
  }

  /** Begins to hear of the keys that end at other replicas. */
  async open(): Promise<void> {
    this.#stopListening = await this.#options.store.listen(
      channel,
      (id) => this.#end(id),
      () => void this.#look(),
    )
  }

  async close(): Promise<void> {
    await this.#stopListening?.()
  }

  /** Makes a key, which is shown this once. */
  async make(
    did: string,
    { name, days, can }: KeyRequest,
  ): Promise<ShownKey & { readonly key: string }> {
    const key = `${keyPrefix}${randomBytes(32).toString('base64url')}`
    const time = this.#now()
    const row = {
      id: randomUUID(),
      hash: hashOf(key),
      did,
      name,
      can: JSON.stringify([...new Set(can)].sort()),
      created_at: time,
      expires_at: time + days * dayMs,
      last_used_at: null,
    }
    await this.#tables.transaction().execute(async (trx) => {
      if (this.#options.store.kind === 'postgres')
        await sql`select pg_advisory_xact_lock(${keysLock}::int, hashtext(${did}))`.execute(trx)
      const { count } = await trx
        .selectFrom('kernel_keys')
        .select((one) => one.fn.countAll<number | string>().as('count'))
        .where('did', '=', did)
        .where('expires_at', '>', time)
        .executeTakeFirstOrThrow()
      if (Number(count) >= mostKeys) throw tooMany()
      await trx.insertInto('kernel_keys').values(row).execute()
    })
    return { ...shown(row), key }
  }

  /** The keys of a user that are in force, the newest first. */
  async list(did: string): Promise<ShownKey[]> {
    const rows = await this.#tables
      .selectFrom('kernel_keys')
      .selectAll()
      .where('did', '=', did)
      .where('expires_at', '>', this.#now())
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(mostKeys)
      .execute()
    return rows.map(shown)
  }

  /** Ends a key of a user. False when the user has no such key. */
  async revoke(did: string, id: string): Promise<boolean> {
    const row = await this.#tables
      .selectFrom('kernel_keys')
      .select(['id', 'expires_at'])
      .where('id', '=', id)
      .where('did', '=', did)
      .executeTakeFirst()
    if (!row) return false
    await this.#endAll([row])
    return true
  }

  /** Ends every key of a user; resolves to how many there were. */
  async revokeAll(did: string): Promise<number> {
    const rows = await this.#tables
      .selectFrom('kernel_keys')
      .select(['id', 'expires_at'])
      .where('did', '=', did)
      .execute() // a key that has expired goes within the hour, so there are few more than 50
    if (rows.length > 0) await this.#endAll(rows)
    return rows.length
  }

  /** Whom a key proves; undefined where the key is wrong, has expired or was ended. */
  async find(key: string): Promise<KeyHolder | undefined> {
    if (!isPersonalKey(key)) return undefined
    const time = this.#now()
    const row = await this.#tables
      .selectFrom('kernel_keys')
      .select(['id', 'did', 'can', 'expires_at'])
      .where('hash', '=', hashOf(key))
      .where('expires_at', '>', time)
      .executeTakeFirst()
    if (!row || !isCallerDid(row.did)) return undefined
    this.#remember(row.id, time)
    const can: string[] = JSON.parse(row.can) // written by `make`
    return { id: row.id, did: row.did, can, expiresAt: Number(row.expires_at) }
  }

  /** The links by which sockets and streams of a key are found. */
  cidsOf({ id }: KeyHolder): readonly string[] {
    return [linkOf(id)]
  }

  /** Has `end` called when the key ends, here or at another replica, until the returned function is called. */
  hold(id: string, end: () => void): () => void {
    const held = this.#held.get(id) ?? new Set()
    this.#held.set(id, held.add(end))
    // The key may have ended between the request and now.
    void this.#look([id])
    return () => {
      held.delete(end)
      if (held.size === 0 && this.#held.get(id) === held) this.#held.delete(id)
    }
  }

  /** Deletes the keys that have expired. */
  async sweep(): Promise<void> {
    await this.#tables.deleteFrom('kernel_keys').where('expires_at', '<=', this.#now()).execute()
  }

  async #endAll(rows: readonly { id: string; expires_at: number | string }[]): Promise<void> {
    const { store, delegations, log } = this.#options
    const ids = rows.map(({ id }) => id)
    // A socket asks whether its links are revoked, whatever proved its user.
    const links = rows.map(({ id, expires_at }) => ({
      cid: linkOf(id),
      expiration: Math.ceil(Number(expires_at) / 1000),
    }))
    await delegations.revokeLinks(links, async (trx) => {
      await trx.withTables<KeyTables>().deleteFrom('kernel_keys').where('id', 'in', ids).execute()
    })
    for (const id of ids) {
      this.#end(id)
      store
        .notify(channel, id)
        .catch((err: unknown) =>
          log.warn({ err }, 'Other replicas were not told of a key that ended'),
        )
    }
  }

  #end(id: string): void {
    const held = this.#held.get(id)
    this.#held.delete(id)
    for (const end of held ?? []) end()
  }

  /** Looks which of the keys with open streams are gone. */
  async #look(ids: readonly string[] = [...this.#held.keys()]): Promise<void> {
    if (ids.length === 0) return
    try {
      const rows = await this.#tables
        .selectFrom('kernel_keys')
        .select('id')
        .where('id', 'in', ids)
        .execute()
      const there = new Set(rows.map(({ id }) => id))
      for (const id of ids) if (!there.has(id)) this.#end(id)
    } catch (err) {
      this.#options.log.warn({ err }, 'keys could not be looked up for open streams')
    }
  }

  /** Writes down once a minute that a key was used. */
  #remember(id: string, time: number): void {
    const minute = Math.floor(time / minuteMs) * minuteMs
    if (this.#used.get(id) === minute) return
    this.#used.set(id, minute)
    this.#tables
      .updateTable('kernel_keys')
      .set({ last_used_at: minute })
      .where('id', '=', id)
      .execute()
      .catch((err: unknown) =>
        this.#options.log.debug({ err }, 'the last use of a key was not written down'),
      )
  }
}

const hashOf = (key: string): string => hash('sha256', key, 'base64url')
const time = (ms: number | string): string => new Date(Number(ms)).toISOString()

function shown(row: KeyTables['kernel_keys']): ShownKey {
  const can: string[] = JSON.parse(row.can) // written by `make`
  return {
    id: row.id,
    name: row.name,
    can,
    createdAt: time(row.created_at),
    expiresAt: time(row.expires_at),
    ...(row.last_used_at !== null && { lastUsedAt: time(row.last_used_at) }),
  }
}

const tooMany = () =>
  new RuntimeError('CONFLICT', `You have ${mostKeys} keys in force already.`, {
    hint: 'End one that you do not need: GET /keys lists them, DELETE /keys/:id ends one.',
  })
