import { setImmediate as nextTick } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import { prepared } from '#core'
import type { Language } from '../screens/catalogue.ts'
import type { SessionRow, Tables } from '../tables.ts'

type Db = Kysely<Tables>

const largestBatch = 32
const forgottenAtOnce = 500

/** A row that was kept, and the language that its phone has chosen. */
export interface Kept {
  readonly session_id: string
  readonly language: string | null
}

/**
 * The sessions of every replica. Writes of one moment go out as one statement, and so as one commit;
 * each is refused by itself when another replica has written the session meanwhile.
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

  /** Keeps a session whose version follows the one that is there. Undefined: somebody else was first. */
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
        // On the way, for nearly every call begins in the first language: a read less for each.
        .returning((eb) => [
          'session_id',
          eb
            .selectFrom('ussd_phones')
            .select('language')
            .whereRef('ussd_phones.phone', '=', 'ussd_sessions.phone')
            .as('language'),
        ]),
    ))
  }

  async rememberLanguage(phone: string, language: Language): Promise<void> {
    await this.#db
      .insertInto('ussd_phones')
      .values({ phone, language, did: null })
      .onConflict((conflict) => conflict.column('phone').doUpdateSet({ language }))
      .execute()
  }

  /** What this phone left unfinished since then, newest first. */
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

  /** How far those sessions are, wherever they went on. */
  async versions(ids: readonly string[]): Promise<Map<string, number>> {
    const rows = await this.#db
      .selectFrom('ussd_sessions')
      .select(['session_id', 'version'])
      .where('session_id', 'in', ids)
      .execute()
    return new Map(rows.map(({ session_id: id, version }) => [id, version]))
  }

  /** In slices, so that calls in progress get in between. */
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

/** The stand-ins of one row in a batch. */
function rowOf(p: Record<string, unknown>, index: number): SessionRow {
  // Stand-ins, which have no types: what they stand for is put in by asParameters.
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
