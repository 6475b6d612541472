import { sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import { before } from '../journal/begin-queries.ts'
import { toEntries } from '../journal/steps.ts'
import { type RunDatabase, withRunTables } from '../journal/tables.ts'
import { takeSession } from '../journal/take-session.ts'
import type { JournalEntry, RunEnd } from '../run.ts'
import type { Sessions, SessionView } from '../sessions/sessions.ts'
import { ownTitle } from '../titles.ts'
import type { Store } from '../../store/store.ts'
import { type CarriedOut, carriedOutAfter, toldOf, type ToolFacts } from './already.ts'
import { type Copying, copyConversation, lastTurnBefore, writeTold } from './copy.ts'
import { type ForkPlace, lastMessageBefore, placeOfMessage, withNotes } from './place.ts'
import { timedId } from '../../base/clock.ts'

/** What a session's engine kept at some step, and the steps that changed it after that. */
export interface KeptAt {
  readonly thread: string
  /** The checkpoint of the engine; undefined where it had not left one by then. */
  readonly checkpoint?: string
  readonly entries: readonly JournalEntry[]
}

/** What branches are made of. */
export interface BranchesOptions extends ToolFacts {
  readonly store: Store
  readonly sessions: Sessions
  /** Makes a head of another thread from what was kept at a step; `save` writes it. */
  headOf(kept: KeptAt, thread: string): Promise<Pick<RunEnd, 'checkpoint' | 'save'>>
}

/** A fork as its caller wishes it. */
export interface ForkWish extends ForkPlace {
  readonly title?: string
  /** True: the fork is another version of the same conversation, and no conversation of its own. */
  readonly branch?: boolean
}

/** Where a session branched off. */
export interface ForkedFrom extends ForkPlace {
  readonly sessionId: string
  /** The last message that was copied; null where there was none. */
  readonly at: string | null
}

/** A fork as its caller reads it. */
export interface Forked extends SessionView {
  readonly already: readonly CarriedOut[]
}

/** One branch of a conversation. */
export interface BranchView {
  readonly sessionId: string
  readonly title?: string
  readonly forkedFrom?: ForkedFrom
  readonly lastUpdatedAt: string
}

const mostBranches = 100

/** The position behind a step of a trace; undefined where the trace has no such step, or the run is of another session. */
export type StepPosition = (run: string, step: number) => Promise<number | undefined>

/** Conversations that branch off from others. */
export class Branches {
  readonly #options: BranchesOptions
  readonly #db: RunDatabase

  constructor(options: BranchesOptions) {
    this.#options = options
    this.#db = withRunTables(options.store.db)
  }

  /** Makes a conversation of what another one was at a place. All of it stands, or none of it. */
  async fork(
    did: string,
    sessionId: string,
    wish: ForkWish,
    positionOfStep: StepPosition,
  ): Promise<Forked> {
    const { store, sessions, headOf } = this.#options
    await sessions.demand(did, sessionId)
    const end = await this.#placeOf(sessionId, wish, positionOfStep)
    const already = await carriedOutAfter(this.#db, sessionId, end, this.#options)
    const id = timedId()
    const head = await headOf(await this.keptBefore(sessionId, end), id)
    const { before, after, run, step } = wish
    const at = await lastMessageBefore(this.#db, sessionId, end)
    const from: ForkedFrom = { sessionId, at, before, after, run, step }
    const copying: Copying = { from: sessionId, to: id, did, end }
    await store.db.transaction().execute(async (connection) => {
      const trx = withRunTables(connection)
      // Taking the row lets no turn begin and no words be taken back meanwhile.
      if (!(await takeSession(trx, sessionId, did))) throw sessions.unknown(sessionId)
      const now = await this.#insert(trx, copying, wish, from)
      const last = await copyConversation(trx, copying)
      const turns = already.length > 0 ? last + 1 : last
      if (already.length > 0) await writeTold(trx, copying, turns, toldOf(already), now)
      await trx.updateTable('kernel_sessions').set({ turns }).where('id', '=', id).execute()
      if (head.checkpoint === undefined) return
      await trx
        .insertInto('kernel_heads')
        .values({ session_id: id, turn: turns, checkpoint: head.checkpoint })
        .execute()
      await head.save?.(trx)
    })
    sessions.tellMade(did, id)
    return { ...(await sessions.view(did, id)), already }
  }

  /** What the engine kept of a session at the end of what stands before a position. */
  async keptBefore(sessionId: string, end: number): Promise<KeptAt> {
    const { turn } = await lastTurnBefore(this.#db, sessionId, end)
    const run = await this.#db
      .selectFrom('kernel_runs')
      .select(['root_id', 'root_turn', 'status'])
      .where('session_id', '=', sessionId)
      .where('turn', '=', turn)
      .executeTakeFirst()
    if (!run) return { ...(await this.#headBefore(sessionId, turn + 1)), entries: [] }
    const rows = await this.#db
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('root_id', '=', run.root_id)
      .orderBy('position')
      .execute()
    const read = rows.filter(({ position }) => Number(position) < end)
    const isOpen = ['queued', 'running', 'waiting'].includes(run.status)
    if (!isOpen && read.length === rows.length)
      return { ...(await this.#headBefore(sessionId, turn + 1)), entries: [] }
    // The run was under way there: what it began with, and what its steps had changed by then.
    return { ...(await this.#headBefore(sessionId, run.root_turn)), entries: toEntries(read) }
  }

  /** The branches of a conversation, the oldest first. */
  async list(did: string, sessionId: string): Promise<{ root: string; branches: BranchView[] }> {
    const { sessions } = this.#options
    const own = await this.#db
      .selectFrom('kernel_sessions')
      .select('family')
      .where('id', '=', sessionId)
      .where('did', '=', did)
      .executeTakeFirst()
    if (!own) throw sessions.unknown(sessionId)
    const root = own.family ?? sessionId
    const rows = await this.#db
      .selectFrom('kernel_sessions')
      .select(['id', 'title', 'forked_from', 'updated_at'])
      .where('did', '=', did)
      .where((eb) => eb.or([eb('id', '=', root), eb('family', '=', root)]))
      .orderBy('created_at')
      .orderBy('id')
      .limit(mostBranches + 1)
      .execute()
    const branches = rows.map(({ id, title, forked_from, updated_at }): BranchView => ({
      sessionId: id,
      title: title ?? undefined,
      forkedFrom: forked_from === null ? undefined : JSON.parse(forked_from),
      lastUpdatedAt: new Date(Number(updated_at)).toISOString(),
    }))
    return { root, branches }
  }

  async #placeOf(
    sessionId: string,
    place: ForkPlace,
    positionOfStep: StepPosition,
  ): Promise<number> {
    const { run, step } = place
    if (run === undefined || step === undefined) return placeOfMessage(this.#db, sessionId, place)
    const position = await positionOfStep(run, step)
    if (position === undefined)
      throw new RuntimeError(
        'NOT_FOUND',
        `The conversation has no run "${run}" with a step ${step}.`,
        {
          hint: 'GET /sessions/:id/runs lists its runs, GET /runs/:id/trace their steps.',
        },
      )
    return withNotes(this.#db, sessionId, position)
  }

  async #headBefore(thread: string, turn: number): Promise<Pick<KeptAt, 'thread' | 'checkpoint'>> {
    const { rows } = await sql<{
      checkpoint: string | null
    }>`select ${before(thread, turn)}`.execute(this.#db)
    return { thread, checkpoint: rows[0]?.checkpoint ?? undefined }
  }

  /** Makes the row of the fork. It stands in no room of a plugin: it is its user's alone. */
  async #insert(
    trx: RunDatabase,
    { to, from, did }: Copying,
    { title, branch }: ForkWish,
    forkedFrom: ForkedFrom,
  ): Promise<number> {
    const { store } = this.#options
    const source = await trx
      .selectFrom('kernel_sessions')
      .select(['title', 'model', 'family', 'turns'])
      .where('id', '=', from)
      .executeTakeFirstOrThrow()
    const family = branch ? (source.family ?? from) : null
    if (family !== null) await demandRoom(trx, family)
    const { created_at } = await trx
      .insertInto('kernel_sessions')
      .values({
        ...{ id: to, did, family, model: source.model, turns: 0 },
        title: title === undefined ? source.title : ownTitle(title),
        created_at: store.now,
        updated_at: store.now,
        forked_from: JSON.stringify(forkedFrom),
      })
      .returning('created_at')
      .executeTakeFirstOrThrow()
    return Number(created_at)
  }
}

/** Refuses the branch that is one too many. */
async function demandRoom(trx: RunDatabase, family: string): Promise<void> {
  const { count } = await trx
    .selectFrom('kernel_sessions')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('family', '=', family)
    .executeTakeFirstOrThrow()
  if (Number(count) < mostBranches) return
  throw new RuntimeError('BRANCHES_FULL', `The conversation has ${mostBranches} branches.`, {
    hint: 'Delete one of them with DELETE /sessions/:id, or fork without "branch".',
  })
}
