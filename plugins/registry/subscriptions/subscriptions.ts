import { randomUUID } from 'node:crypto'
import { RuntimeError, type Oracle } from '#core'
import { deliver } from '#core/webhooks'
import { parse } from '../query/grammar.ts'
import type { Queries } from '../query/queries.ts'
import { invalid, notFound } from '../refusal.ts'
import type { Actor } from '../rights/actor.ts'
import type { Reader } from '../rights/reader.ts'
import type { ChangeRow, EntityRow, RegistryDatabase } from '../tables.ts'
import { isOfServer, type SubscriptionRequest } from './request.ts'
import type { SubscriptionRow } from './tables.ts'

/** A subscription as its owner sees it: without the secret. */
export interface Subscription {
  readonly id: string
  readonly where?: string
  readonly url: string
  readonly state: 'active' | 'dead'
  /** The event that was delivered last, or did not concern it. */
  readonly lastEventId: string
  /** Why it is dead. */
  readonly error?: string
  readonly createdAt: string
}

/** How many subscriptions one owner has at most. */
const mostOwned = 100
/** How many changes one job takes. */
const pageSize = 50
/** How many attempts one change gets: the waits between them grow to an hour, so that this is about a day. */
const attempts = 36
/** Answers after which no other attempt helps. */
const final: ReadonlySet<string> = new Set(['DELIVERY_REFUSED', 'ADDRESS_REFUSED', 'INVALID_INPUT'])

/** What a delivery needs of its job. */
interface Attempt {
  readonly attempt: number
  readonly signal: AbortSignal
  giveUp(why: string): never
}

/** Subscriptions: each hears of the changes of entities one after the other, so that those of one entity are in order. */
export class Subscriptions {
  readonly #db: RegistryDatabase
  readonly #queries: Queries
  readonly #oracle: Oracle
  readonly #isPublic: boolean

  constructor(db: RegistryDatabase, queries: Queries, oracle: Oracle, isPublic: boolean) {
    this.#db = db
    this.#queries = queries
    this.#oracle = oracle
    this.#isPublic = isPublic
  }

  /** Makes a subscription, which hears of the changes from now on. */
  async create(actor: Actor, { where, url, secret }: SubscriptionRequest): Promise<Subscription> {
    if (isOfServer(url, this.#oracle.url()))
      throw invalid('url', 'it is the address of this server, which would hear of itself')
    if (where !== undefined) parse(where)
    const reader = this.#readerOf({ reader: actor.did ?? null })
    await this.#queries.matching({ where }, [], reader)
    const owned = await this.#db
      .selectFrom('registry_subscriptions')
      .select('id')
      .where('owner', '=', actor.name)
      .limit(mostOwned)
      .execute()
    if (owned.length >= mostOwned)
      throw new RuntimeError('QUOTA_EXCEEDED', `${actor.name} has ${mostOwned} subscriptions.`, {
        status: 429,
        hint: 'DELETE one first.',
      })
    const { seq } = await this.#db
      .selectFrom('registry_clock')
      .select('seq')
      .executeTakeFirstOrThrow()
    const row: SubscriptionRow = {
      id: randomUUID(),
      owner: actor.name,
      reader: actor.did ?? null,
      query: JSON.stringify({ where }),
      url,
      secret,
      state: 'active',
      reached: seq,
      error: null,
      created_at: new Date().toISOString(),
      revived: 0,
    }
    await this.#db.insertInto('registry_subscriptions').values(row).execute()
    return shown(row)
  }

  /** The subscriptions of an owner, the newest first. */
  async list(actor: Actor, state?: 'active' | 'dead'): Promise<{ items: Subscription[] }> {
    let query = this.#db
      .selectFrom('registry_subscriptions')
      .selectAll()
      .where('owner', '=', actor.name)
    if (state) query = query.where('state', '=', state)
    const rows = await query.orderBy('created_at', 'desc').orderBy('id').limit(mostOwned).execute()
    return { items: rows.map(shown) }
  }

  /** One subscription of an owner. */
  async read(actor: Actor, id: string): Promise<Subscription> {
    return shown(await this.#mustOwn(actor, id))
  }

  /** Ends a subscription. A delivery that is under way may still arrive. */
  async remove(actor: Actor, id: string): Promise<Subscription> {
    const row = await this.#mustOwn(actor, id)
    await this.#db.deleteFrom('registry_subscriptions').where('id', '=', id).execute()
    return shown(row)
  }

  /**
   * Lets a dead subscription live again: from where it gave up, so that nothing is lost, or from now on. Its receiver may get
   * the change that failed once more, under the same id.
   */
  async revive(actor: Actor, id: string, from: 'there' | 'now'): Promise<Subscription> {
    const row = await this.#mustOwn(actor, id)
    if (row.state !== 'dead') return shown(row)
    const { seq } = await this.#db
      .selectFrom('registry_clock')
      .select('seq')
      .executeTakeFirstOrThrow()
    const next = {
      state: 'active' as const,
      error: null,
      revived: row.revived + 1,
      reached: from === 'now' ? seq : row.reached,
    }
    await this.#db
      .updateTable('registry_subscriptions')
      .set(next)
      .where('id', '=', id)
      .where('state', '=', 'dead')
      .execute()
    return shown({ ...row, ...next })
  }

  async #mustOwn(actor: Actor, id: string): Promise<SubscriptionRow> {
    const row = await this.#find(id)
    if (row?.owner === actor.name) return row
    throw notFound('subscription', id)
  }

  #find(id: string): Promise<SubscriptionRow | undefined> {
    return this.#db
      .selectFrom('registry_subscriptions')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst()
  }

  /** The living subscriptions that have changes before them. */
  async behind(): Promise<Pick<SubscriptionRow, 'id' | 'reached' | 'revived'>[]> {
    return this.#db
      .selectFrom('registry_subscriptions')
      .select(['id', 'reached', 'revived'])
      .where('state', '=', 'active')
      .where('reached', '<', (is) =>
        is.selectFrom('registry_clock').select('seq').where('id', '=', 1),
      )
      .limit(1000)
      .execute()
  }

  /**
   * Delivers the next changes one after the other, and returns how far that was; undefined when there is nothing more. Each
   * change has an id of its own that is the same in every attempt. What was reached is kept at the end alone, so that until
   * then no second job delivers from there; a new attempt may repeat what arrived before the one that failed.
   */
  async deliver(id: string, job: Attempt): Promise<number | undefined> {
    const row = await this.#find(id)
    if (row?.state !== 'active') return undefined
    const changes = await this.#db
      .selectFrom('registry_changes')
      .selectAll()
      .where('seq', '>', row.reached)
      .orderBy('seq')
      .limit(pageSize)
      .execute()
    const last = changes.at(-1)
    if (!last) return undefined
    try {
      for (const change of await this.#concerning(row, changes)) {
        job.signal.throwIfAborted()
        await deliver(row.url, bodyOf(id, change), {
          id: `${id}-${change.seq}`,
          secret: row.secret,
          signal: job.signal,
        })
      }
    } catch (error) {
      if (!(error instanceof RuntimeError)) throw error
      if (!final.has(error.code) && job.attempt < attempts) throw error
      await this.#db
        .updateTable('registry_subscriptions')
        .set({ state: 'dead', error: `${error.code}: ${error.message}` })
        .where('id', '=', id)
        .execute()
      job.giveUp(error.code)
    }
    await this.#reach(id, last.seq)
    return changes.length < pageSize ? undefined : last.seq
  }

  #reach(id: string, reached: number) {
    return this.#db
      .updateTable('registry_subscriptions')
      .set({ reached })
      .where('id', '=', id)
      .where('reached', '<', reached)
      .execute()
  }

  /** The changes of entities of which the condition holds now, as far as the owner sees these entities now. */
  async #concerning(row: SubscriptionRow, changes: readonly ChangeRow[]): Promise<ChangeRow[]> {
    const ofEntities = changes.filter(({ kind }) => kind === 'entity')
    const dids = [...new Set(ofEntities.map(({ did }) => did))]
    if (dids.length === 0) return []
    const rows: EntityRow[] = await this.#db
      .selectFrom('registry_entities')
      .selectAll()
      .where('did', 'in', dids)
      .execute()
    const matching = await this.#queries.matching(JSON.parse(row.query), rows, this.#readerOf(row))
    return ofEntities.filter(({ did }) => matching.has(did))
  }

  /** A DID hears of what is its own: a grant to read everything belongs to a request, and no request stands behind a delivery. */
  #readerOf({ reader }: Pick<SubscriptionRow, 'reader'>): Reader {
    return { did: this.#isPublic || reader === null ? undefined : reader }
  }
}

function shown({ id, query, url, state, reached, error, created_at }: SubscriptionRow) {
  return {
    id,
    ...(JSON.parse(query) as { where?: string }),
    url,
    state,
    lastEventId: String(reached),
    ...(error !== null && { error }),
    createdAt: created_at,
  }
}

const bodyOf = (
  subscription: string,
  { seq, kind, action, did, type, version, at }: ChangeRow,
) => ({
  id: String(seq),
  subscription,
  event: `${kind}.${action}`,
  did,
  type,
  version,
  at,
})
