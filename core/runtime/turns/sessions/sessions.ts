import { type RawBuilder, sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { EnsuredSession } from '../../../plugin.ts'
import type { Proof } from '../../http/routes/access.ts'
import { roomIdIn, roomOfPlugin } from '../../base/room-name.ts'
import { forgetFilesOf } from '../../files/files.ts'
import type { Notices } from '../../notices/notices.ts'
import { readTitle } from '../titles.ts'
import type { Commits } from '../journal/commits.ts'
import { otherReaders, sharedWithoutRoom } from './refusals.ts'
import { cursorOf, type ListWish, placeOf, wished } from './page.ts'
import { slices } from '../journal/store.ts'
import type { Dialect, RunDatabase } from '../journal/tables.ts'
import { takeSession } from '../journal/take-session.ts'
import { forgetWords } from '../search/tables.ts'
import type { SessionRow } from './made-at-once.ts'
import { hintOf, Making } from './making.ts'
import { newestOf, ownSession } from './queries.ts'
import { timedId } from '../../base/clock.ts'

/** What every session tells clients of the oracle. */
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
  /** The id of the model that the user chose last in it; without one the default answers. */
  readonly model?: string
  /** Whether its user keeps it above all others, or has put it away. */
  readonly pinned?: boolean
  readonly archived?: boolean
  /** Where it branched off from another session. */
  readonly forkedFrom?: Readonly<Record<string, unknown>>
  /** How many notices of the session its user has not seen; in a list. */
  readonly unread?: number
}

/** The session that a plugin wants; without an id the newest one of the room, else of the plugin. */
export interface SessionWish {
  readonly id?: string
  /** The plugin's own name of the room in which a session that is made now stands. */
  readonly room?: string
  /** Whether others read along in the room; undefined where the session may be either. */
  readonly shared?: boolean
  readonly title?: string
  /** The plugin that wants the session. */
  readonly plugin?: string
}

/** Any number that no other lock has will do, as long as every version of the runtime takes the same. */
const sessionLock = 7022
const longestId = 100

/** What the sessions are made of. */
export interface SessionsOptions {
  readonly db: RunDatabase
  readonly dialect: Dialect
  /** The time by the database's clock. */
  readonly now: RawBuilder<number>
  /** Commits new sessions: many that are made at once share a commit where that costs the most. */
  readonly commits: Commits
  readonly oracle: OracleFacts
  /** The room of a session, where it has one outside of this runtime. */
  roomIdOf?(did: string): Promise<string | undefined>
  /** Tells users of new sessions, and counts the notices of each session that its user has not seen. */
  readonly notices?: Notices
}

/** The conversations of the users. For a caller, the conversations of other users do not exist. */
export class Sessions {
  readonly #options: SessionsOptions
  readonly #making: Making
  readonly #own: ReturnType<typeof ownSession>

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#making = new Making(options)
    this.#own = ownSession(options)
  }

  /** Begins a conversation, which is a plugin's where a plugin begins it. */
  async create(
    did: string,
    { plugin = null, proof }: { readonly plugin?: string | null; readonly proof?: Proof } = {},
  ): Promise<SessionView> {
    const row = await this.#making.make({ id: timedId(), did, plugin }, { proof })
    if (!row) throw new Error('The database did not return the session that it inserted.')
    return this.#view(row, await this.#roomIdFor(did, [row]))
  }

  /** A session under an id of its client's, for the message that follows: what a power cut takes of both, the client sends again. */
  async begin(did: string, id: string, proof?: Proof): Promise<EnsuredSession> {
    const session = { id: readId(id), did, plugin: null }
    const made = await this.#making.make(session, { durability: 'unsynced', proof })
    return made ? { sessionId: id, isNew: true } : this.#known(did, id, { room: null })
  }

  /** The session that is wanted, made when it is not there. Another user's stays unknown; a session keeps its room. */
  async ensure(did: string, wish: SessionWish): Promise<EnsuredSession> {
    const ensured = await this.#ensured(did, wish)
    if (ensured.isNew) this.tellMade(did, ensured.sessionId)
    return ensured
  }

  async #ensured(did: string, wish: SessionWish): Promise<EnsuredSession> {
    const { db } = this.#options
    const room = wish.room === undefined ? null : roomOfPlugin(wish.plugin ?? '', wish.room)
    if (wish.shared && room === null) throw sharedWithoutRoom()
    if (wish.id !== undefined) return this.#ensureById(did, readId(wish.id), { ...wish, room })
    const found = await newestOf(db, did, { ...wish, room })
    if (found !== undefined) return { sessionId: found, isNew: false }
    return db.transaction().execute((trx) => this.newestOrNew(trx, did, { ...wish, room }))
  }

  /** The user's newest session of the room, else of the plugin, or a new one. Two that ask at once get the same. */
  async newestOrNew(
    trx: RunDatabase,
    did: string,
    wish: Omit<SessionWish, 'id' | 'room'> & { readonly room: string | null },
  ): Promise<EnsuredSession> {
    if (this.#options.dialect === 'postgres') {
      const what = `${did} ${wish.room ?? wish.plugin}`
      await sql`select pg_advisory_xact_lock(${sessionLock}::int, hashtext(${what}))`.execute(trx)
    }
    const found = await newestOf(trx, did, wish)
    if (found !== undefined) return { sessionId: found, isNew: false }
    const id = timedId()
    await this.#insert(trx, { ...wish, id, did }).executeTakeFirst()
    return { sessionId: id, isNew: true }
  }

  async #ensureById(
    did: string,
    id: string,
    wish: Omit<SessionWish, 'id' | 'room'> & { readonly room: string | null },
  ): Promise<EnsuredSession> {
    const made = await this.#options.commits.single((on) =>
      this.#insert(on, { ...wish, id, did })
        .onConflict((conflict) => conflict.column('id').doNothing())
        .returning('id')
        .executeTakeFirst(),
    )
    return made ? { sessionId: id, isNew: true } : this.#known(did, id, wish)
  }

  /** The user's session of this id, if it is as it is wanted. */
  async #known(
    did: string,
    id: string,
    wish: { readonly room: string | null; readonly shared?: boolean },
  ): Promise<EnsuredSession> {
    const known = await this.#options.db
      .selectFrom('kernel_sessions')
      .select(['room', 'shared'])
      .where('id', '=', id)
      .where('did', '=', did)
      .executeTakeFirst()
    if (!known) throw this.unknown(id)
    if (wish.shared !== undefined && wish.shared !== (known.shared === 1)) throw otherReaders(id)
    if (wish.room !== null && known.room !== wish.room)
      throw new RuntimeError('CONFLICT', `Session "${id}" stands in another room, or in none.`, {
        hint: 'A session keeps the room that it was made with: name another session.',
      })
    return { sessionId: id, isNew: false }
  }

  #insert(
    db: RunDatabase,
    wish: Omit<SessionWish, 'room'> & {
      readonly id: string
      readonly did: string
      readonly room: string | null
    },
  ) {
    const { id, did, room, shared, title, plugin } = wish
    const { now } = this.#options
    return db.insertInto('kernel_sessions').values({
      id,
      did,
      title: title === undefined ? null : readTitle(title),
      created_at: now,
      updated_at: now,
      turns: 0,
      room,
      shared: shared ? 1 : 0,
      plugin: plugin ?? null,
    })
  }

  /** The room of a session, as it is stored; null where it has none of its own. */
  async roomOf(sessionId: string): Promise<string | null> {
    return (await this.facts(sessionId))?.room ?? null
  }

  /** The model that a message has chosen for its session; null where none has. */
  async modelOf(sessionId: string): Promise<string | null> {
    return (await this.facts(sessionId))?.model ?? null
  }

  /** Whose a session is, its room and its model; undefined where there is no such session. */
  facts(sessionId: string) {
    const all = this.#options.db.selectFrom('kernel_sessions')
    return all.select(['did', 'room', 'model']).where('id', '=', sessionId).executeTakeFirst()
  }

  /** A page of the user's sessions, pinned ones and the newest first. `total` counts all of them. */
  async list(did: string, wish: ListWish) {
    const place = placeOf(wish)
    const mine = wished(this.#options.db.selectFrom('kernel_sessions').where('did', '=', did), wish)
    const here =
      place === undefined
        ? mine
        : mine.where(sql<boolean>`(
      pinned < ${place.pinned} or (pinned = ${place.pinned} and (updated_at < ${place.updated}
        or (updated_at = ${place.updated} and id > ${place.id}))))`)
    const found = await here
      .selectAll()
      .orderBy('pinned', 'desc')
      .orderBy('updated_at', 'desc')
      .orderBy('id')
      .limit(wish.limit + 1)
      .offset(wish.offset ?? 0)
      .execute()
    const rows = found.slice(0, wish.limit)
    const { total } = await mine
      .select((eb) => eb.fn.countAll<number>().as('total'))
      .executeTakeFirstOrThrow()
    const ids = rows.map(({ id }) => id)
    const unread = await this.#options.notices?.unreadIn(did, ids)
    const roomId = await this.#roomIdFor(did, rows)
    const sessions = rows.map((row) => ({
      ...this.#view(row, roomId),
      unread: unread?.get(row.id) ?? 0,
    }))
    const nextCursor = cursorOf(wish, found.length > rows.length ? rows.at(-1) : undefined)
    return { sessions, total, nextCursor }
  }

  /** One session of the caller's. */
  async view(did: string, sessionId: string): Promise<SessionView> {
    const mine = this.#options.db.selectFrom('kernel_sessions').selectAll().where('did', '=', did)
    const row = await mine.where('id', '=', sessionId).executeTakeFirst()
    if (!row) throw this.unknown(sessionId)
    return this.#view(row, await this.#roomIdFor(did, [row]))
  }

  /** Throws NOT_FOUND for a session that is not the caller's. */
  async demand(did: string, sessionId: string): Promise<void> {
    if (!(await this.isOwn(did, sessionId))) throw this.unknown(sessionId)
  }

  /** The error for a session that is not the caller's: the same whether another user has a session of that id or none has. */
  unknown(sessionId: string): RuntimeError {
    return new RuntimeError('NOT_FOUND', `You have no session "${sessionId}".`, {
      hint: 'POST /sessions makes one, GET /sessions lists yours.',
    })
  }

  /** Whether the session is the caller's. */
  async isOwn(did: string, sessionId: string): Promise<boolean> {
    return (await this.#own({ did, id: sessionId })).rows.length > 0
  }

  /** Whether somebody said something in the session after the step at `position`, other than in the runs of `besides`. */
  async spokeAfter(
    sessionId: string,
    position: number,
    besides: readonly string[],
  ): Promise<boolean> {
    const said = this.#options.db
      .selectFrom('kernel_steps')
      .select('position')
      .where('session_id', '=', sessionId)
      .where('kind', 'in', ['user', 'assistant'])
      .where('position', '>', position)
    const query = besides.length > 0 ? said.where('run_id', 'not in', besides) : said
    return (await query.limit(1).executeTakeFirst()) !== undefined
  }

  /**
   * Deletes a session with everything that belongs to it; resolves to the ids of its runs. `tell` is called in the same
   * transaction, while all of it is still there. With `only`, a session whose row does not meet the condition stays.
   */
  async delete(
    did: string,
    sessionId: string,
    tell: (trx: RunDatabase) => Promise<void> = async () => {},
    only?: RawBuilder<boolean>,
  ): Promise<string[]> {
    const runIds = await this.#options.db.transaction().execute(async (trx) => {
      const { numDeletedRows } = await trx
        .deleteFrom('kernel_sessions')
        .where('id', '=', sessionId)
        .where('did', '=', did)
        .$if(only !== undefined, (query) => query.where(only ?? sql<boolean>`1 = 1`))
        .executeTakeFirst()
      if (numDeletedRows === 0n) return undefined
      await tell(trx)
      await this.#options.notices?.forgetSession(trx, did, sessionId)
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
        'kernel_results',
        'kernel_heads',
        'kernel_early_stops',
        'kernel_quarantine',
        'kernel_said_keys',
      ] as const)
        await trx.deleteFrom(table).where('session_id', '=', sessionId).execute()
      await sql`delete from kernel_waiting_turns where session_id = ${sessionId}`.execute(trx)
      await forgetWords(trx, sessionId)
      await forgetFilesOf(this.#options.dialect, trx, sessionId)
      return ids
    })
    if (!runIds) throw this.unknown(sessionId)
    return runIds
  }

  /** Deletes a session in which nothing was said and no turn waits; false where there is something, or no such session. */
  discard(did: string, sessionId: string): Promise<boolean> {
    return this.#options.db.transaction().execute(async (trx) => {
      // A turn that begins holds the session's row, so this transaction looks only after the turn is recorded.
      const session = await takeSession(trx, sessionId, did)
      const { rows } = await sql`select 1 as used from kernel_runs where session_id = ${sessionId}
        union all select 1 as used from kernel_waiting_turns where session_id = ${sessionId}
        limit 1`.execute(trx)
      if (!session || rows.length > 0) return false
      await trx.deleteFrom('kernel_sessions').where('id', '=', sessionId).execute()
      return true
    })
  }

  /** Tells the user's pages of a session that is new, or has another title or place. */
  tellMade(did: string, sessionId: string, change: 'made' | 'renamed' = 'made'): void {
    const { event, data } = hintOf(sessionId, change)
    this.#options.notices?.tell(did, event, data)
  }

  /** The room id of the sessions that have no room of their own; asked for where there is one of them. */
  async #roomIdFor(did: string, rows: readonly SessionRow[]): Promise<string | undefined> {
    return rows.some(({ room }) => room === null) ? this.#options.roomIdOf?.(did) : undefined
  }

  #view(
    { id, title, created_at, updated_at, room, model, pinned, archived, forked_from }: SessionRow,
    roomId: string | undefined,
  ): SessionView {
    const { oracle } = this.#options
    return {
      sessionId: id,
      title: title ?? undefined,
      createdAt: new Date(created_at).toISOString(),
      lastUpdatedAt: new Date(updated_at).toISOString(),
      oracleName: oracle.name,
      oracleDid: oracle.did,
      oracleEntityDid: oracle.entityDid,
      model: model ?? undefined,
      roomId: room === null ? roomId : roomIdIn(room),
      pinned: pinned === 1 || undefined,
      archived: archived === 1 || undefined,
      forkedFrom: forked_from === null ? undefined : JSON.parse(forked_from),
    }
  }
}

function readId(id: unknown): string {
  const isText = typeof id === 'string' && id !== '' && id.length <= longestId
  if (isText && !/\p{Cc}/u.test(id) && id.isWellFormed()) return id
  throw new RuntimeError('INPUT_INVALID', 'That is no id of a session.', {
    hint: `An id has 1 to ${longestId} characters, and no control character.`,
  })
}
