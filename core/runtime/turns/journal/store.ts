import { sql, type Selectable } from 'kysely'
import { Commits, type CommitStore } from './commits.ts'
import { before, beginQueries, type Place } from './begin-queries.ts'
import { fromBatch, type RunEvent } from './event-lines.ts'
import { databaseNow } from '../../base/clock.ts'
import {
  type Dialect,
  type RunDatabase,
  type RunsTable,
  type Stop,
  withRunTables,
} from './tables.ts'
import { isOpenIn } from '../indexes/open-runs.ts'
import { batchWriter, type RunWrite, savesByRows } from './write.ts'
import { positionOf, type StepRow } from './steps.ts'
import type { TurnRequest } from '../run.ts'
import { toRequest } from '../user-message.ts'

/** A run as its row stands in the database. */
export type RunRow = Selectable<RunsTable>

/** What the engine learns of the session's earlier runs: the newest of them, how many were redacted, and where the newest left off. */
export interface Before {
  readonly previous?: string
  readonly redactions: number
  readonly checkpoint?: string
}

/** A run and its epoch. Every change that a process makes for the run is fenced by both. */
export interface Held {
  readonly id: string
  readonly epoch: number
}

/** What a run store is made of. */
export interface RunStoreOptions {
  readonly store: CommitStore
  /** The name of this process. A process that starts again has another name. */
  readonly owner: string
  readonly leaseMs: number
}

const batchesPerPage = 8
/** Row-value lists are spelled out in SQL, so they are kept short. */
const idsPerStatement = 500

/**
 * The runs in the database. This class reads and writes their rows; `begin.ts`, `stop.ts`, `leases.ts`, `deaths.ts`,
 * `effects.ts`, `head.ts` and `retention.ts` each hold one kind of change that goes through it.
 */
export class RunStore {
  readonly db: RunDatabase
  readonly dialect: Dialect
  readonly owner: string
  readonly commits: Commits
  /** The time by the database's clock. */
  readonly now: CommitStore['now']
  /** How long a lease lasts. */
  readonly leaseMs: number
  /** The statements by which a run begins. */
  readonly begin: ReturnType<typeof beginQueries>
  readonly #leaseNow: ReturnType<typeof databaseNow>
  readonly #writeBatch: ReturnType<typeof batchWriter>

  constructor(options: RunStoreOptions) {
    const { store, owner, leaseMs } = options
    const dialect = store.kind
    this.db = withRunTables(store.db)
    this.dialect = dialect
    this.owner = owner
    this.commits = new Commits(store)
    this.leaseMs = leaseMs
    this.now = store.now
    this.#leaseNow = databaseNow(dialect)
    this.#writeBatch = batchWriter(dialect, store.now.compile(store.db).sql)
    this.begin = beginQueries(this)
  }

  /** The time by the database's clock, for leases: no test moves it. */
  get leaseNow() {
    return this.#leaseNow
  }
  /** The database's day since 1970, by UTC. */
  get today() {
    return sql<number>`(${this.now}) / 86400000`
  }
  /** The end of a lease that is taken now. */
  get leaseEnd() {
    return sql<number>`${this.#leaseNow} + ${this.leaseMs}`
  }

  /** The row of a run. */
  find(id: string, db = this.db): Promise<RunRow | undefined> {
    return db.selectFrom('kernel_runs').selectAll().where('id', '=', id).executeTakeFirst()
  }

  /** The request that began a run or its chain of approvals; undefined when it is not kept any more. */
  async requestOf({
    root_id,
    root_turn,
    session_id,
  }: Pick<RunRow, 'root_id' | 'root_turn' | 'session_id'>): Promise<TurnRequest | undefined> {
    const row = await this.db
      .selectFrom('kernel_runs as run')
      .leftJoin('kernel_run_requests as asked', 'asked.run_id', 'run.id')
      .leftJoin('kernel_steps as words', (join) =>
        join
          .on('words.session_id', '=', session_id)
          .on('words.position', '=', positionOf(root_turn, 0))
          .on('words.kind', 'in', ['user', 'plugin']),
      )
      .select(['asked.request', 'words.body'])
      .where('run.id', '=', root_id)
      .where('run.purged', '=', 0)
      .executeTakeFirst()
    return row && toRequest(row.request, row.body)
  }

  /**
   * Writes for many runs. Resolves to those of which nothing was written, and why: this process does not hold the run any
   * more, or the run was to wait for a person and was stopped.
   */
  async write(writes: readonly RunWrite[]): Promise<ReadonlyMap<string, 'lost' | Stop>> {
    const ends = writes.flatMap(({ id, end }) => (end ? [{ id, save: end.save }] : []))
    const isOneStatement = this.dialect === 'postgres' && savesByRows(writes)
    const isSaving = !isOneStatement && ends.some(({ save }) => save)
    const write = async (db: RunDatabase) => {
      const held = await this.#writeBatch(db, this.owner, this.leaseMs, writes)
      if (isSaving) for (const { id, save } of ends) if (held.has(id)) await save?.(db)
      return held
    }
    // After a power cut, the next process repeats what a run that goes on had written. The end of a run is final:
    // readers were told of the end, so it waits for the disk.
    const durability = ends.length > 0 ? 'synced' : 'unsynced'
    const written = await (isSaving
      ? this.commits.atomic(write, durability)
      : this.commits.single(write, durability))
    const missing = writes.filter(({ id }) => !written.has(id))
    if (missing.length === 0) return new Map()
    // The database's answer to an earlier try may have been lost: then the write stands, and this try found it done.
    const rows = await this.db
      .selectFrom('kernel_runs')
      .select(['id', 'epoch', 'version', 'owner', 'stop'])
      .where(
        'id',
        'in',
        missing.map(({ id }) => id),
      )
      .execute()
    const found = new Map(rows.map((row) => [row.id, row]))
    const refused = new Map<string, 'lost' | Stop>()
    for (const { id, epoch, version, end } of missing) {
      const row = found.get(id)
      const isOurs = row?.epoch === epoch && row.owner === this.owner
      if (row?.epoch === epoch && row.version === version) continue
      const isStopped = isOurs && row.version === version - 1 && end?.status === 'waiting'
      refused.set(id, (isStopped && row.stop) || 'lost')
    }
    return refused
  }

  /** A page of a run's events after a number, oldest first. */
  async eventsAfter(runId: string, after: number): Promise<RunEvent[]> {
    const rows = await this.db
      .selectFrom('kernel_run_events')
      .select('body')
      .where('run_id', '=', runId)
      .where('last_seq', '>', after)
      .orderBy('last_seq')
      .limit(batchesPerPage)
      .execute()
    return rows.flatMap(fromBatch).filter(({ id }) => id > after)
  }

  /** Which of the runs have an event after the number that is known of them, or are gone. */
  async behind(known: ReadonlyMap<string, number>): Promise<{ changed: string[]; gone: string[] }> {
    const changed: string[] = []
    const gone = new Set(known.keys())
    for (const ids of slices([...known.keys()])) {
      const rows = await this.db
        .selectFrom('kernel_runs')
        .select(['id', 'last_seq'])
        .where('id', 'in', ids)
        .execute()
      for (const { id, last_seq } of rows) {
        gone.delete(id)
        if (last_seq > (known.get(id) ?? 0)) changed.push(id)
      }
    }
    return { changed, gone: [...gone] }
  }

  /** What came before a run in its session, or before the next one. */
  async before(
    { session_id, turn }: Pick<RunRow, 'session_id' | 'turn'>,
    db = this.db,
  ): Promise<Before> {
    const latest = Math.min(turn, 2 ** 31 - 1) // as large as the column takes
    const { rows } = await sql<Place>`select ${before(session_id, latest)}`.execute(db)
    return toBefore(rows[0])
  }

  /** The session's newest run that is not at its end, or waits for a person, and whether somebody carries it. */
  async newestOpen(sessionId: string) {
    const row = await this.db
      .selectFrom('kernel_runs')
      .select([
        'id',
        'status',
        sql<number>`case when owner is not null and lease_until >= ${this.#leaseNow} then 1 else 0 end`.as(
          'held',
        ),
      ])
      .where(isOpenIn(sql.val(sessionId)))
      .orderBy('turn', 'desc')
      .limit(1)
      .executeTakeFirst()
    return row && { id: row.id, status: row.status, isHeld: row.held === 1 }
  }

  /** The run of a turn that has yet to end, by the id of the turn's first run. */
  openOf(sessionId: string, rootId: string) {
    return this.db
      .selectFrom('kernel_runs')
      .select(['id', 'status', 'request_id'])
      .where(isOpenIn(sql.val(sessionId)))
      .where('root_id', '=', rootId)
      .limit(1)
      .executeTakeFirst()
  }

  /** The rows of the journal of a chain of runs, in order. */
  stepsOf(run: Pick<RunRow, 'session_id' | 'root_id'>, db = this.db): Promise<StepRow[]> {
    return db
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', run.session_id)
      .where('root_id', '=', run.root_id)
      .orderBy('position')
      .execute()
  }

  /** The messages and the summaries before a position, newest first. */
  stepsBefore(sessionId: string, position: number, limit: number): Promise<StepRow[]> {
    return this.db
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('position', '<', position)
      .where('kind', 'in', ['user', 'plugin', 'assistant', 'tool', 'summary'])
      .orderBy('position', 'desc')
      .limit(limit)
      .execute()
  }

  /** The words that began runs before a position, newest first. */
  wordsBefore(sessionId: string, position: number, limit: number): Promise<StepRow[]> {
    return this.db
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('position', '<', position)
      .where('kind', 'in', ['user', 'plugin'])
      .orderBy('position', 'desc')
      .limit(limit)
      .execute()
  }
}

/** What a row of the query `before` says. */
export const toBefore = (place: Place | undefined): Before => ({
  previous: place?.previous ?? undefined,
  redactions: Number(place?.redactions ?? 0),
  checkpoint: place?.checkpoint ?? undefined,
})

/** A list of ids in pieces that one statement takes. */
export function* slices(ids: readonly string[], size = idsPerStatement): Generator<string[]> {
  for (let i = 0; i < ids.length; i += size) yield ids.slice(i, i + size)
}
