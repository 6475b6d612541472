import { randomBytes, randomUUID } from 'node:crypto'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { ErasedData, KeptData, Log } from '../../plugin.ts'
import { databaseNow } from '../base/clock.ts'
import type { Store } from '../store/store.ts'
import { findDids } from './did-hash.ts'
import type { ErasureFile, ErasureLine } from './erasure-file.ts'
import type { ErasedParts, ErasureRow, ErasureTables } from './tables.ts'
import { kernelParts, type UserData } from './user-data.ts'

/** What erasures are made of. */
export interface ErasuresOptions {
  readonly store: Pick<Store, 'db' | 'kind'>
  readonly userData: Pick<UserData, 'plugins' | 'erase'>
  /** Makes the hash by which an erasure finds its user again. */
  readonly hashOf: (did: string) => string
  /** Where erasures are kept beside an embedded database. */
  readonly file: ErasureFile | undefined
  readonly log: Log
  /** An erasure whose process is silent this long is gone on with by another one. */
  readonly leaseMs: number
}

/** An erasure as whoever knows its id sees it. */
export interface ErasureView {
  readonly state: 'running' | 'done'
  readonly createdAt: string
  readonly endedAt?: string
  /** How many things of each kind are gone, by plugin. */
  readonly erased: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly kept: readonly (Omit<KeptData, 'until'> & { plugin: string; until?: string })[]
  /** The parts of the app that have not erased yet, and are called again. */
  readonly waitsFor: readonly string[]
}

/** An erasure as the operator sees it: by its hash, never by the DID. */
export interface ErasureEntry extends ErasureLine {
  readonly state: 'running' | 'done'
  readonly tries: number
  /** Why a part failed last, by its name. */
  readonly faults: Readonly<Record<string, string>>
}

/** What a replay of erasures did. */
export interface Replayed {
  /** How many erasures this database did not know. */
  readonly erasures: number
  /** How many users of them were in the database. */
  readonly users: number
  /** How many of these users' erasures have not ended, because a part of them failed. */
  readonly open: number
}

const lookMs = 5_000
/** The first wait before parts that failed are called again, which doubles, and the longest. */
const waits = { firstMs: 1_000, longestMs: 3_600_000 }
const longestFault = 300
const linesPerStep = 500

/** The erasures of an app: begun by users, carried out part by part, gone on with after a crash and after a restored backup. */
export class Erasures {
  readonly #options: ErasuresOptions
  readonly #db: Kysely<ErasureTables>
  readonly #owner = randomUUID()
  readonly #now: RawBuilder<number>
  readonly #working = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined
  #soon: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: ErasuresOptions) {
    this.#options = options
    this.#db = options.store.db.withTables<ErasureTables>()
    this.#now = databaseNow(options.store.kind)
  }

  /** Erases again what a restored backup has brought back, and goes on with what a crash has cut. */
  async open(): Promise<void> {
    const { store, file } = this.#options
    // An embedded database has one server: whoever held a lease is dead.
    if (store.kind === 'sqlite')
      await sql`update kernel_erasures set lease_until = 0 where state = 'running'`.execute(
        store.db,
      )
    if (file) await this.replay(file.lines())
    this.#timer = setInterval(() => void this.look(), lookMs).unref()
    void this.look()
  }

  /** Carries out what is not known here, to its end. */
  async replay(lines: AsyncIterable<ErasureLine>): Promise<Replayed> {
    const unknown = new Map<string, string>()
    let step: ErasureLine[] = []
    const take = async () => {
      for (const { id, hash } of await this.#addUnknown(step)) unknown.set(hash, id)
      step = []
    }
    for await (const line of lines) {
      step.push(line)
      if (step.length >= linesPerStep) await take()
    }
    await take()
    if (unknown.size === 0) return { erasures: 0, users: 0, open: 0 }
    const { store, hashOf, log } = this.#options
    const dids = await findDids(store.db, hashOf, new Set(unknown.keys()))
    let open = 0
    for (const [hash, id] of unknown) {
      const did = dids.get(hash)
      if (did === undefined) await this.#end(id, {})
      else if (!(await this.#again(id, did))) open++
    }
    log.warn(
      { erasures: unknown.size, users: dids.size },
      'The database is older than its erasures: these users were erased again',
    )
    return { erasures: unknown.size, users: dids.size, open }
  }

  /** Begins to erase everything of a user, or finds the erasure that is under way. Resolves once it outlives a crash. */
  async begin(did: string): Promise<{ readonly erasureId: string; readonly isNew: boolean }> {
    const { hashOf, file } = this.#options
    const id = randomBytes(24).toString('base64url')
    const hash = hashOf(did)
    await this.#insert({ id, hash, did })
    const { id: erasureId } = await this.#db
      .selectFrom('kernel_erasures')
      .select('id')
      .where('did', '=', did)
      .where('state', '=', 'running')
      .executeTakeFirstOrThrow()
    const isNew = erasureId === id
    if (isNew) await file?.add({ id, hash, at: new Date().toISOString() })
    setImmediate(() => void this.look())
    return { erasureId, isNew }
  }

  /** How far an erasure has come; undefined where there is none of this id. */
  async find(id: string): Promise<ErasureView | undefined> {
    const row = await this.#rows().where('id', '=', id).executeTakeFirst()
    return row && this.#view(row)
  }

  /** The erasures after one of them, the oldest first, for the operator. */
  async list(limit: number, after = ''): Promise<ErasureEntry[]> {
    const rows = await this.#rows().where('id', '>', after).orderBy('id').limit(limit).execute()
    return rows.map(({ id, hash, state, tries, faults, created_at }) => ({
      ...{ id, hash, state, tries },
      at: iso(created_at),
      faults: JSON.parse(faults), // written by `#carry`
    }))
  }

  /** Carries on what nobody carries and whose time has come. */
  async look(): Promise<void> {
    if (this.#isClosed) return
    try {
      const { rows } = await sql<{ id: string }>`select id from kernel_erasures
        where state = 'running' and did is not null and due_at <= ${this.#now}
        and lease_until <= ${this.#now} order by created_at limit 10`.execute(this.#db)
      for (const { id } of rows) {
        const work = this.#carry(id)
        this.#working.add(work)
        void work.finally(() => this.#working.delete(work))
      }
    } catch (err) {
      this.#options.log.warn({ err }, 'Erasures could not be looked for; trying again')
    }
  }

  /** Stops; what is under way is gone on with by another process, or after the next boot. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    clearTimeout(this.#soon)
    await Promise.race([
      Promise.allSettled(this.#working),
      new Promise((resolve) => setTimeout(resolve, 2_000).unref()),
    ])
  }

  /** Erases a user once more; resolves to whether nothing of it is left to do. */
  async #again(id: string, did: string): Promise<boolean> {
    const other = await this.#rows()
      .where('did', '=', did)
      .where('state', '=', 'running')
      .executeTakeFirst()
    if (other) {
      await this.#end(id, {})
      return false
    }
    await this.#db.updateTable('kernel_erasures').set({ did }).where('id', '=', id).execute()
    await this.#carry(id)
    return (await this.find(id))?.state === 'done'
  }

  /** Carries out the parts that are not done, unless another process does. Never rejects. */
  async #carry(id: string): Promise<void> {
    const row = await this.#take(id)
    if (!row || row.did === null) return
    const renewing = setInterval(() => void this.#renew(id), this.#options.leaseMs / 3).unref()
    try {
      await this.#parts(row, row.did)
    } catch (err) {
      this.#options.log.warn({ err, erasure: id }, 'An erasure was cut; it is gone on with')
    } finally {
      clearInterval(renewing)
    }
  }

  async #parts(row: ErasureRow, did: string): Promise<void> {
    const { userData, log } = this.#options
    const done: Record<string, ErasedData> = JSON.parse(row.parts) // written below
    const faults: Record<string, string> = {}
    const carry = async (part: string) => {
      try {
        const erased = await userData.erase(part, did)
        done[part] = together(done[part], erased)
        await this.#keep(row.id, done)
      } catch (err) {
        faults[part] = (err instanceof Error ? err.message : String(err)).slice(0, longestFault)
        log.warn({ err, erasure: row.id, part }, 'A part of an erasure failed; it is called again')
      }
    }
    // Runs of the user would write anew what a plugin has erased, so they end first.
    await carry(kernelParts.first)
    if (faults[kernelParts.first] === undefined) {
      // All at once: a plugin that hangs holds up no other.
      await Promise.all(userData.plugins.filter((name) => !(name in done)).map(carry))
      await carry(kernelParts.last)
    }
    if (Object.keys(faults).length === 0) return this.#end(row.id, done)
    const waitMs = Math.min(waits.firstMs * 2 ** Math.min(row.tries, 20), waits.longestMs)
    await sql`update kernel_erasures set faults = ${JSON.stringify(faults)}, tries = tries + 1,
      due_at = ${this.#now} + ${sql.lit(waitMs)}, lease_until = 0
      where id = ${row.id} and owner = ${this.#owner}`.execute(this.#db)
    if (waitMs < lookMs) this.#soon = setTimeout(() => void this.look(), waitMs + 50).unref()
  }

  async #take(id: string): Promise<ErasureRow | undefined> {
    if (this.#isClosed) return undefined
    return this.#db
      .updateTable('kernel_erasures')
      .set({ owner: this.#owner, lease_until: this.#leaseEnd })
      .where('id', '=', id)
      .where('state', '=', 'running')
      .where(sql<boolean>`lease_until <= ${this.#now}`)
      .returningAll()
      .executeTakeFirst()
  }

  async #renew(id: string): Promise<void> {
    await this.#held(id)
      .set({ lease_until: this.#leaseEnd })
      .execute()
      .catch((err: unknown) => this.#options.log.warn({ err }, 'A lease could not be renewed'))
  }

  get #leaseEnd(): RawBuilder<number> {
    return sql<number>`${this.#now} + ${sql.lit(this.#options.leaseMs)}`
  }

  async #keep(id: string, parts: ErasedParts): Promise<void> {
    await this.#held(id)
      .set({ parts: JSON.stringify(parts) })
      .execute()
  }

  #held(id: string) {
    return this.#db
      .updateTable('kernel_erasures')
      .where('id', '=', id)
      .where('owner', '=', this.#owner)
  }

  /** Forgets the DID: from now on only the hash is left. */
  async #end(id: string, parts: ErasedParts): Promise<void> {
    await this.#db
      .updateTable('kernel_erasures')
      .set({
        ...{ state: 'done', did: null, parts: JSON.stringify(parts), faults: '{}', lease_until: 0 },
        ended_at: this.#now,
      })
      .where('id', '=', id)
      .execute()
  }

  async #addUnknown(lines: readonly ErasureLine[]): Promise<readonly ErasureLine[]> {
    if (lines.length === 0) return []
    const ids = lines.map(({ id }) => id)
    const rows = await this.#rows().where('id', 'in', ids).execute()
    // A replay that a crash has cut left rows without a DID, for which nobody has looked yet.
    const known = new Set(
      rows.filter(({ state, did }) => state === 'done' || did !== null).map(({ id }) => id),
    )
    const unknown = lines.filter(({ id }) => !known.has(id))
    for (const { id, hash } of unknown) await this.#insert({ id, hash, did: null })
    return unknown
  }

  async #insert(named: Pick<ErasureRow, 'id' | 'hash' | 'did'>): Promise<void> {
    await this.#db
      .insertInto('kernel_erasures')
      .values({
        ...{ ...named, state: 'running', parts: '{}', faults: '{}', tries: 0, due_at: 0 },
        ...{ owner: null, lease_until: 0, created_at: this.#now, ended_at: null },
      })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
  }

  #rows() {
    return this.#db.selectFrom('kernel_erasures').selectAll()
  }

  #view({ state, created_at, ended_at, parts }: ErasureRow): ErasureView {
    const done: Record<string, ErasedData> = JSON.parse(parts) // written by `#keep`
    const erased: Record<string, Record<string, number>> = {}
    const kept: ErasureView['kept'][number][] = []
    for (const [part, { erased: counts, kept: left = [] }] of Object.entries(done)) {
      const [plugin = part] = part.split(':')
      erased[plugin] = { ...erased[plugin], ...counts }
      for (const { what, why, until } of left)
        kept.push({ plugin, what, why, ...(until && { until: new Date(until).toISOString() }) })
    }
    const all = [kernelParts.first, ...this.#options.userData.plugins, kernelParts.last]
    const waitsFor = state === 'done' ? [] : all.filter((part) => !(part in done))
    return {
      ...{ state, erased, kept, createdAt: iso(created_at) },
      ...(ended_at !== null && { endedAt: iso(ended_at) }),
      waitsFor: [...new Set(waitsFor.map((part) => part.split(':')[0] ?? part))],
    }
  }
}

const iso = (ms: number): string => new Date(Number(ms)).toISOString()

/** What two calls of one part erased: counts add up, and what the later call says of what is kept holds. */
function together(before: ErasedData | undefined, { erased, kept }: ErasedData): ErasedData {
  const sum = { ...before?.erased }
  for (const [kind, count] of Object.entries(erased)) sum[kind] = (sum[kind] ?? 0) + count
  return { erased: sum, ...(kept && { kept }) }
}
