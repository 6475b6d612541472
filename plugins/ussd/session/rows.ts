import { setImmediate as nextTick } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import { prepared } from '#core'
import { notedEveryMs } from '../accounts/unused.ts'
import type { Language } from '../screens/catalogue.ts'
import type { SessionRow, Tables } from '../tables.ts'

type Db = Kysely<Tables>

const largestBatch = 32
const forgottenAtOnce = 500

/** The result of a stored row, the language that the phone has chosen, and when that phone was last noted to be in use. */
export interface Kept {
  readonly session_id: string
  readonly language: string | null
  readonly phone_used_at: number | null
}

/**
 * The sessions of all replicas. Writes that come at the same moment share one statement, and so one commit. A write is
 * refused by itself when another replica has written its session meanwhile.
 */
export class SessionRows {
  readonly #db: Db
  readonly #waiting: {
    row: SessionRow
    settle: (kept: Kept | undefined) => void
    fail: (error: unknown) => void
  }[] = []
  readonly #upserts: ((parameters: Record<string, unknown>) => Promise<{ rows: Kept[] }>)[] = []
  readonly #byId
  #writing = false

  constructor(db: Db) {
    this.#db = db
    this.#byId = prepared(db, (p: { id: string }) =>
      db.selectFrom('ussd_sessions').selectAll().where('session_id', '=', p.id),
    )
  }

  async load(id: string): Promise<SessionRow | undefined> {
    return (await this.#byId({ id })).rows[0]
  }

  /** Stores a session if its version follows the stored version; resolves to undefined if another writer was first. */
  save(row: SessionRow): Promise<Kept | undefined> {
    return new Promise((settle, fail) => {
      this.#waiting.push({ row, settle, fail })
      if (this.#writing) return
      this.#writing = true
      setImmediate(() => void this.#write())
    })
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, largestBatch)
      try {
        const { rows } = await this.#upsert(batch.length)(asParameters(batch.map(({ row }) => row)))
        const kept = new Map(rows.map((row) => [row.session_id, row]))
        for (const { row, settle } of batch) settle(kept.get(row.session_id))
      } catch (error) {
        for (const { fail } of batch) fail(error)
      }
    }
    this.#writing = false
  }

  #upsert(size: number) {
    return (this.#upserts[size] ??= prepared(this.#db, (p: Record<string, unknown>) =>
      this.#db
        .insertInto('ussd_sessions')
        .values(Array.from({ length: size }, (_, index) => rowOf(p, index)))
        .onConflict((conflict) =>
          conflict
            .column('session_id')
            .doUpdateSet((eb) => ({
              phone: eb.ref('excluded.phone'),
              network: eb.ref('excluded.network'),
              operator: eb.ref('excluded.operator'),
              version: eb.ref('excluded.version'),
              length: eb.ref('excluded.length'),
              mark: eb.ref('excluded.mark'),
              body: eb.ref('excluded.body'),
              status: eb.ref('excluded.status'),
              state: eb.ref('excluded.state'),
              working_since: eb.ref('excluded.working_since'),
              undelivered: eb.ref('excluded.undelivered'),
              touched_at: eb.ref('excluded.touched_at'),
              expires_at: eb.ref('excluded.expires_at'),
            }))
            .where((eb) =>
              eb.or([
                eb.and([
                  eb('ussd_sessions.version', '=', eb('excluded.version', '-', 1)),
                  eb('ussd_sessions.phone', '=', eb.ref('excluded.phone')),
                ]),
                eb('ussd_sessions.expires_at', '<=', eb.ref('excluded.touched_at')),
              ]),
            ),
        )
        // The same statement returns the phone's language, which spares each new call a read.
        .returning((eb) => [
          'session_id',
          eb
            .selectFrom('ussd_phones')
            .select('language')
            .whereRef('ussd_phones.phone', '=', 'ussd_sessions.phone')
            .as('language'),
          eb
            .selectFrom('ussd_phones')
            .select('used_at')
            .whereRef('ussd_phones.phone', '=', 'ussd_sessions.phone')
            .as('phone_used_at'),
        ]),
    ))
  }

  async rememberLanguage(phone: string, language: Language): Promise<void> {
    const used_at = Date.now()
    await this.#db
      .insertInto('ussd_phones')
      .values({ phone, language, did: null, used_at })
      .onConflict((conflict) => conflict.column('phone').doUpdateSet({ language, used_at }))
      .execute()
  }

  /** Notes that the phone of a call is in use, where something is kept of it and the last note is old. */
  async noteUse(phone: string, { phone_used_at }: Kept): Promise<void> {
    const used_at = Date.now()
    if (phone_used_at === null || used_at - phone_used_at < notedEveryMs) return
    await this.#db.updateTable('ussd_phones').set({ used_at }).where('phone', '=', phone).execute()
  }

  /** The states of the sessions that this phone has left unfinished since a time, newest first. */
  left(phone: string, since: number, not: string): Promise<{ state: string }[]> {
    return this.#db
      .selectFrom('ussd_sessions')
      .select('state')
      .where('phone', '=', phone)
      .where('session_id', '!=', not)
      .where('status', '=', 'active')
      .where('working_since', '=', 0)
      .where('touched_at', '>', since)
      .orderBy('touched_at', 'desc')
      .limit(5)
      .execute()
  }

  async active(now: number): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('ussd_sessions')
      .select('session_id')
      .where('status', '=', 'active')
      .where('expires_at', '>', now)
      .orderBy('session_id')
      .execute()
    return rows.map(({ session_id: id }) => id)
  }

  /** The present versions of some sessions, which other replicas may have continued. */
  async versions(ids: readonly string[]): Promise<Map<string, number>> {
    const rows = await this.#db
      .selectFrom('ussd_sessions')
      .select(['session_id', 'version'])
      .where('session_id', 'in', ids)
      .execute()
    return new Map(rows.map(({ session_id: id, version }) => [id, version]))
  }

  /** Deletes expired rows in batches, so that calls in progress run between two batches. */
  async forget(before: number): Promise<void> {
    for (;;) {
      const { numDeletedRows } = await this.#db
        .deleteFrom('ussd_sessions')
        .where('session_id', 'in', (eb) =>
          eb
            .selectFrom('ussd_sessions')
            .select('session_id')
            .where('expires_at', '<=', before)
            .limit(forgottenAtOnce),
        )
        .executeTakeFirstOrThrow()
      if (numDeletedRows < forgottenAtOnce) return
      await nextTick()
    }
  }
}

const columns = [
  'session_id',
  'phone',
  'network',
  'operator',
  'version',
  'length',
  'mark',
  'body',
  'status',
  'state',
  'working_since',
  'undelivered',
  'touched_at',
  'expires_at',
] as const satisfies (keyof SessionRow)[]

/** The parameters of one row in a batch. */
function rowOf(p: Record<string, unknown>, index: number): SessionRow {
  // The parameters have no types here; asParameters gives them their values.
  return Object.fromEntries(
    columns.map((name) => [name, p[`${name}${index}`]]),
  ) as unknown as SessionRow
}

function asParameters(rows: readonly SessionRow[]): Record<string, unknown> {
  const parameters: Record<string, unknown> = {}
  for (const [index, row] of rows.entries())
    for (const name of columns) parameters[`${name}${index}`] = row[name]
  return parameters
}
