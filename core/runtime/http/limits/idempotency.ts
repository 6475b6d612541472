import { createHash, randomUUID } from 'node:crypto'
import type { ExpressionBuilder, Kysely } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { Database, Log, Migration } from '../../../plugin.ts'
import type { Answer } from '../answer/answer.ts'
import type { Target } from '../read/target.ts'

/** Who repeats what: a caller, the route, and the key that the caller chose. */
export interface RequestName {
  readonly caller: string
  readonly route: string
  readonly key: string
}

/** Whether a kept fingerprint is that of this request. */
type Matches = (kept: string) => Promise<boolean>

// Types, not interfaces: Kysely wants an index signature, which only a type has.
type Row = {
  caller: string
  route: string
  key: string
  fingerprint: string
  /** Which run holds the row. */
  token: string
  /** Null while the request runs. */
  answer: string | null
  /** Until when the run is believed alive. */
  lease_until: number
  expires_at: number
}
type Tables = { kernel_idempotency: Row }

/** Creates the table. Milliseconds since 1970 fit a bigint in PostgreSQL and any integer in SQLite. */
export const idempotencyMigration: Migration = async (db) => {
  await db.schema
    .createTable('kernel_idempotency')
    .addColumn('caller', 'text', (column) => column.notNull())
    .addColumn('route', 'text', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('fingerprint', 'text', (column) => column.notNull())
    .addColumn('token', 'text', (column) => column.notNull())
    .addColumn('answer', 'text')
    .addColumn('lease_until', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('kernel_idempotency_pk', ['caller', 'route', 'key'])
    .execute()
  await db.schema
    .createIndex('kernel_idempotency_expires_at')
    .on('kernel_idempotency')
    .column('expires_at')
    .execute()
}

const named =
  ({ caller, route, key }: RequestName) =>
  (row: ExpressionBuilder<Tables, 'kernel_idempotency'>) =>
    row.and({ caller, route, key })

const keepMs = 24 * 60 * 60 * 1000

/**
 * Idempotency keys in the database, so that every replica honours them. The row is inserted before
 * the request runs: of two that race, the database lets one in. A run renews its lease while it
 * lives; when its process dies, the next repeat takes over.
 */
export class Idempotency {
  readonly #db: Kysely<Tables>
  readonly #log: Log
  readonly #leaseMs: number
  readonly #sweeper: NodeJS.Timeout

  constructor(options: {
    readonly db: Database
    readonly log: Log
    readonly leaseMs?: number
    readonly sweepMs?: number
  }) {
    this.#db = options.db.withTables<Tables>()
    this.#log = options.log
    this.#leaseMs = options.leaseMs ?? 60_000
    this.#sweeper = setInterval(() => void this.#sweep(), options.sweepMs ?? 600_000).unref()
  }

  /**
   * The stored answer, or the claim to make one. Throws IDEMPOTENCY_MISMATCH for another request
   * under the same key, and IDEMPOTENCY_IN_PROGRESS while the first one runs. `matches` compares with a kept
   * fingerprint where equality is not enough.
   */
  async begin(
    name: RequestName,
    fingerprint: string,
    matches?: Matches,
  ): Promise<Answer | RequestClaim> {
    // A row can vanish or change hands between two statements; the second look settles it.
    const first = await this.#attempt(name, fingerprint, matches)
    const second = first ?? (await this.#attempt(name, fingerprint, matches))
    if (second !== undefined) return second
    throw new RuntimeError(
      'IDEMPOTENCY_IN_PROGRESS',
      'The first request with this Idempotency-Key is still running.',
      { hint: 'Repeat the request in a moment.', headers: { 'Retry-After': '1' } },
    )
  }

  close(): void {
    clearInterval(this.#sweeper)
  }

  /** Inserts the row, or takes over one that is expired or whose run died. Undefined: look again. */
  async #attempt(
    name: RequestName,
    fingerprint: string,
    matches: Matches | undefined,
  ): Promise<Answer | RequestClaim | undefined> {
    const now = Date.now()
    const fresh = {
      fingerprint,
      token: randomUUID(),
      answer: null,
      lease_until: now + this.#leaseMs,
      expires_at: now + keepMs,
    }
    const inserted = await this.#db
      .insertInto('kernel_idempotency')
      .values({ ...name, ...fresh })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst()
    if (inserted.numInsertedOrUpdatedRows === 1n) return this.#claim(name, fresh.token)
    const row = await this.#db
      .selectFrom('kernel_idempotency')
      .selectAll()
      .where(named(name))
      .executeTakeFirst()
    if (row === undefined) return undefined
    // PostgreSQL returns a bigint as text.
    const abandoned = row.answer === null && Number(row.lease_until) <= now
    if (abandoned || Number(row.expires_at) <= now) {
      const taken = await this.#db
        .updateTable('kernel_idempotency')
        .set(fresh)
        .where(named(name))
        .where('token', '=', row.token)
        .where('lease_until', '=', row.lease_until)
        .executeTakeFirst()
      return taken.numUpdatedRows === 1n ? this.#claim(name, fresh.token) : undefined
    }
    return keptAnswer(row, fingerprint, matches)
  }

  #claim(name: RequestName, token: string): RequestClaim {
    return new RequestClaim(this.#db, this.#log, name, token, this.#leaseMs)
  }

  async #sweep(): Promise<void> {
    try {
      await this.#db
        .deleteFrom('kernel_idempotency')
        .where('expires_at', '<=', Date.now())
        .execute()
    } catch (error) {
      this.#log.warn({ err: error }, 'could not sweep expired idempotency keys')
    }
  }
}

/** The error for a key that came with another request before. */
export const keyOfAnother = () =>
  new RuntimeError('IDEMPOTENCY_MISMATCH', 'This Idempotency-Key was used with another request.', {
    hint: 'Take a new key for a new request.',
  })

/** The answer of a row that is in force; undefined while its first request runs. */
async function keptAnswer(
  row: Pick<Row, 'answer' | 'fingerprint'>,
  fingerprint: string,
  matches: Matches | undefined,
): Promise<Answer | undefined> {
  // While the first body is still streaming in, its fingerprint is not known, so the repeat has to wait.
  if (matches && row.answer === null) return undefined
  if (!(matches ? await matches(row.fingerprint) : row.fingerprint === fingerprint))
    throw keyOfAnother()
  return row.answer === null ? undefined : (JSON.parse(row.answer) as Answer)
}

/** The right to run a request that nobody else is running. The claim renews its lease until it is kept or released. */
export class RequestClaim {
  readonly #db: Kysely<Tables>
  readonly #log: Log
  readonly #name: RequestName
  readonly #token: string
  readonly #renewal: NodeJS.Timeout

  constructor(db: Kysely<Tables>, log: Log, name: RequestName, token: string, leaseMs: number) {
    this.#db = db
    this.#log = log
    this.#name = name
    this.#token = token
    this.#renewal = setInterval(() => void this.#renew(leaseMs), leaseMs / 3).unref()
  }

  /** Keeps the answer for the repeats of the next 24 hours, with the fingerprint where `begin` could not know all of it. */
  async keep(answer: Answer, fingerprint?: string): Promise<void> {
    clearInterval(this.#renewal)
    await this.#own()
      .set({
        answer: JSON.stringify(answer),
        ...(fingerprint !== undefined && { fingerprint }),
      })
      .execute()
  }

  /** Forgets the request, so that a repeat runs again. */
  async release(): Promise<void> {
    clearInterval(this.#renewal)
    await this.#db
      .deleteFrom('kernel_idempotency')
      .where(named(this.#name))
      .where('token', '=', this.#token)
      .execute()
  }

  #own() {
    return this.#db
      .updateTable('kernel_idempotency')
      .where(named(this.#name))
      .where('token', '=', this.#token)
  }

  async #renew(leaseMs: number): Promise<void> {
    try {
      await this.#own()
        .set({ lease_until: Date.now() + leaseMs })
        .execute()
    } catch (error) {
      this.#log.warn({ err: error }, 'could not renew the lease of an idempotent run')
    }
  }
}

const printable = /^[ -~]{1,255}$/

/** The key of a request, or undefined when it brings none. */
export function readIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  if (typeof header === 'string' && printable.test(header)) return header
  throw new RuntimeError(
    'BAD_REQUEST',
    'The Idempotency-Key is not 1 to 255 printable ASCII characters.',
    { hint: 'A UUID is a good key.' },
  )
}

/** What makes two requests the same: the target and the bytes of the body. */
export function fingerprintOf({ url }: Target, raw: Buffer | undefined): string {
  const hash = createHash('sha256').update(`${url}\n`)
  return (raw === undefined ? hash : hash.update(raw)).digest('base64')
}

/** Whether an outcome would be the same again. A fault of the server, a limit, a timeout or a payment that is due would not. */
export function isRepeatable(status: number): boolean {
  return status < 500 && ![402, 408, 425, 429].includes(status)
}
