import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import { databaseNow, type Dialect, type RunDatabase, type SessionsTable } from './tables.ts'
import { slices } from './store.ts'

/** Who the oracle is, as clients are told with every session. */
export interface OracleFacts {
  readonly name: string
  readonly did: string
  readonly entityDid?: string
}

/** A session as the wire has it. */
export interface SessionView {
  readonly sessionId: string
  readonly title?: string
  readonly createdAt: string
  readonly lastUpdatedAt: string
  readonly oracleName: string
  readonly oracleDid: string
  readonly oracleEntityDid?: string
  readonly roomId?: string
}

/** What the sessions are made of. */
export interface SessionsOptions {
  readonly db: RunDatabase
  readonly dialect: Dialect
  readonly oracle: OracleFacts
  /** The room of a session, where it has one outside of this runtime. */
  roomIdOf?(did: string, sessionId: string): string | undefined
}

/** The conversations of the users. For a caller, the conversations of other users do not exist. */
export class Sessions {
  readonly #options: SessionsOptions

  constructor(options: SessionsOptions) {
    this.#options = options
  }

  /** Begins a conversation. */
  async create(did: string): Promise<SessionView> {
    const { db, dialect } = this.#options
    const now = databaseNow(dialect)
    const row = await db
      .insertInto('kernel_sessions')
      .values({ id: randomUUID(), did, created_at: now, updated_at: now, turns: 0 })
      .returningAll()
      .executeTakeFirstOrThrow()
    return this.#view(row)
  }

  /** A session by the name that a plugin gave it, begun when it is not there. Another user's stays unknown. */
  async ensure(did: string, id: string): Promise<void> {
    const { db, dialect } = this.#options
    const now = databaseNow(dialect)
    await db
      .insertInto('kernel_sessions')
      .values({ id, did, created_at: now, updated_at: now, turns: 0 })
      .onConflict((conflict) => conflict.column('id').doNothing())
      .execute()
    await this.demand(did, id)
  }

  /** The newest first. `total` counts them all. */
  async list(did: string, limit: number, offset: number) {
    const { db } = this.#options
    const mine = db.selectFrom('kernel_sessions').where('did', '=', did)
    const rows = await mine
      .selectAll()
      .orderBy('updated_at', 'desc')
      .orderBy('id')
      .limit(limit)
      .offset(offset)
      .execute()
    const { total } = await mine
      .select((eb) => eb.fn.countAll<number>().as('total'))
      .executeTakeFirstOrThrow()
    return { sessions: rows.map((row) => this.#view(row)), total }
  }

  /** Throws NOT_FOUND for a session that is not the caller's. */
  async demand(did: string, sessionId: string): Promise<void> {
    if (!(await this.isOwn(did, sessionId))) throw this.unknown(sessionId)
  }

  /** What a caller without such a session hears, whether another user has one of that name or not. */
  unknown(sessionId: string): RuntimeError {
    return new RuntimeError('NOT_FOUND', `You have no session "${sessionId}".`, {
      hint: 'POST /sessions makes one, GET /sessions lists yours.',
    })
  }

  /** Whether the session is the caller's. */
  async isOwn(did: string, sessionId: string): Promise<boolean> {
    const row = await this.#options.db
      .selectFrom('kernel_sessions')
      .select('id')
      .where('id', '=', sessionId)
      .where('did', '=', did)
      .executeTakeFirst()
    return row !== undefined
  }

  /** Deletes a session with everything that belongs to it; resolves to the ids of its runs. */
  async delete(did: string, sessionId: string): Promise<string[]> {
    const runIds = await this.#options.db.transaction().execute(async (trx) => {
      const { numDeletedRows } = await trx
        .deleteFrom('kernel_sessions')
        .where('id', '=', sessionId)
        .where('did', '=', did)
        .executeTakeFirst()
      if (numDeletedRows === 0n) return undefined
      // The runs go first: from then on no process can write for them, and nothing of them is left behind.
      const runs = await trx
        .deleteFrom('kernel_runs')
        .where('session_id', '=', sessionId)
        .returning('id')
        .execute()
      const ids = runs.map(({ id }) => id)
      for (const some of slices(ids))
        for (const table of [
          'kernel_run_requests',
          'kernel_run_events',
          'kernel_client_answers',
        ] as const)
          await trx.deleteFrom(table).where('run_id', 'in', some).execute()
      for (const table of [
        'kernel_steps',
        'kernel_effects',
        'kernel_heads',
        'kernel_early_stops',
        'kernel_quarantine',
      ] as const)
        await trx.deleteFrom(table).where('session_id', '=', sessionId).execute()
      return ids
    })
    if (!runIds) throw this.unknown(sessionId)
    return runIds
  }

  #view({ id, did, title, created_at, updated_at }: SessionsTable): SessionView {
    const { oracle, roomIdOf } = this.#options
    return {
      sessionId: id,
      title: title ?? undefined,
      createdAt: new Date(created_at).toISOString(),
      lastUpdatedAt: new Date(updated_at).toISOString(),
      oracleName: oracle.name,
      oracleDid: oracle.did,
      oracleEntityDid: oracle.entityDid,
      roomId: roomIdOf?.(did, id),
    }
  }
}

/** The title of a session, from the first words that were said in it. */
export function titleOf(message: string): string {
  // PostgreSQL cannot keep U+0000 in a text.
  const line = message.replace(/[\s\0]+/g, ' ').trim()
  if (line.length <= 60) return line
  const cut = line.slice(0, 60).toWellFormed()
  const space = cut.lastIndexOf(' ')
  return `${(space > 30 ? cut.slice(0, space) : cut).trimEnd()}…`
}
