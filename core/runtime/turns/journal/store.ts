import { sql, type Selectable } from 'kysely'
import { Commits, type CommitStore } from './commits.ts'
import { deathsAtMost, isAlive } from './deaths.ts'
import { before, beginQueries, type Place } from './begin-queries.ts'
import { fromBatch, type RunEvent } from './event-lines.ts'
import type { EffectState } from '../run.ts'
import {
  databaseNow,
  type Dialect,
  type RunDatabase,
  type RunsTable,
  withRunTables,
} from './tables.ts'
import { batchWriter, type RunWrite } from './write.ts'
import type { StepRow } from './steps.ts'

export type RunRow = Selectable<RunsTable>

/** What an engine is told of the session's earlier runs. */
export interface Before {
  readonly previous?: string
  readonly checkpoint?: string
}

/** A run, and which process may write for it: the fence of every change. */
export interface Held {
  readonly id: string
  readonly epoch: number
}

export interface RunsToClaim {
  readonly limit: number
  /** Runs that this process carries, whatever the database says. */
  readonly except: readonly string[]
  readonly skip: number
  /** True takes only runs with which a process died once, false only all others. */
  readonly suspects?: boolean
}

export interface RunStoreOptions {
  readonly store: CommitStore
  /** This process. A process that starts anew is another one. */
  readonly owner: string
  readonly leaseMs: number
}

const open = sql<boolean>`status in ('queued', 'running')`
const openOrWaiting = sql<boolean>`status in ('queued', 'running', 'waiting')`
const batchesPerPage = 8
/** Row-value lists are spelled out in SQL, so they are kept short. */
const idsPerStatement = 500

/** The runs in the database: who holds them, what they did, what became of their effects. */
export class RunStore {
  readonly db: RunDatabase
  readonly dialect: Dialect
  readonly owner: string
  readonly commits: Commits
  /** What is asked when a run begins. */
  readonly begin: ReturnType<typeof beginQueries>
  readonly #leaseMs: number
  readonly #now: ReturnType<typeof databaseNow>
  readonly #writeBatch: ReturnType<typeof batchWriter>

  constructor(options: RunStoreOptions) {
    const { store, owner, leaseMs } = options
    const dialect = store.kind
    this.db = withRunTables(store.db)
    this.dialect = dialect
    this.owner = owner
    this.commits = new Commits(store)
    this.#leaseMs = leaseMs
    this.#now = databaseNow(dialect)
    this.#writeBatch = batchWriter(dialect)
    this.begin = beginQueries(this)
  }

  /** The database's now, and the end of a lease taken now. */
  get now() {
    return this.#now
  }
  /** The database's day since 1970, by UTC. */
  get today() {
    return sql<number>`(${this.#now}) / 86400000`
  }
  get leaseEnd() {
    return sql<number>`${this.#now} + ${this.#leaseMs}`
  }

  find(id: string, db = this.db): Promise<RunRow | undefined> {
    return db.selectFrom('kernel_runs').selectAll().where('id', '=', id).executeTakeFirst()
  }

  async requestOf(runId: string): Promise<string | undefined> {
    const row = await this.db
      .selectFrom('kernel_run_requests')
      .select('request')
      .where('run_id', '=', runId)
      .executeTakeFirst()
    return row?.request
  }

  /** Writes for many runs; resolves to those that this process does not hold any more. */
  async write(writes: readonly RunWrite[]): Promise<Set<string>> {
    const saves = writes.filter(({ end }) => end?.save)
    const write = async (db: RunDatabase) => {
      const held = await this.#writeBatch(db, this.owner, this.#leaseMs, writes)
      for (const { id, end } of saves) if (held.has(id)) await end!.save!(db)
      return held
    }
    // What a power cut takes of a run that goes on is done again; its end was told to somebody.
    const durability = writes.some(({ end }) => end) ? 'synced' : 'unsynced'
    const written = await (saves.length > 0
      ? this.commits.atomic(write, durability)
      : this.commits.single(write, durability))
    const missing = writes.filter(({ id }) => !written.has(id))
    if (missing.length === 0) return new Set()
    // An answer that was lost on the way: the write stands, and its repetition found it done.
    const rows = await this.db
      .selectFrom('kernel_runs')
      .select(['id', 'epoch', 'version'])
      .where(
        'id',
        'in',
        missing.map(({ id }) => id),
      )
      .execute()
    const done = new Map(rows.map((row) => [row.id, row]))
    const lost = missing.filter(({ id, epoch, version }) => {
      const row = done.get(id)
      return row?.epoch !== epoch || row.version !== version
    })
    return new Set(lost.map(({ id }) => id))
  }

  /** Events after a number, oldest first, not too many at once. */
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

  /** Makes the leases of these runs last again; resolves to what the database says of those still held. */
  async extendLeases(ids: readonly string[]): Promise<Pick<RunRow, 'id' | 'epoch' | 'stop'>[]> {
    const held: Pick<RunRow, 'id' | 'epoch' | 'stop'>[] = []
    for (const some of slices(ids))
      held.push(
        ...(await this.commits.single((db) =>
          db
            .updateTable('kernel_runs')
            .set({ lease_until: this.leaseEnd })
            .where('id', 'in', some)
            .where('owner', '=', this.owner)
            .where(open)
            .returning(['id', 'epoch', 'stop'])
            .execute(),
        )),
      )
    return held
  }

  /**
   * Takes runs that nobody carries: released ones, those of the dead once the deaths are counted, and those whose
   * lease ran out under a process that lives. A takeover of the last kind counts as an attempt here, that of the
   * dead was counted with the death. Runs that died once are suspects and taken apart from the others. Numbers of
   * events that the last owner may have shown and not written are skipped, so that no client takes a new event for
   * one it has.
   */
  claim({ limit, except, skip, suspects = false }: RunsToClaim): Promise<RunRow[]> {
    const lapsed =
      this.dialect === 'postgres'
        ? sql<boolean>`(lease_until < ${this.#now} and (owner = ${this.owner} or ${isAlive(this)}))`
        : sql<boolean>`lease_until < ${this.#now}`
    const free = sql<boolean>`(owner is null or ${lapsed})`
    const suspect = sql<boolean>`(deaths between 1 and ${deathsAtMost - 1} and stop is null)`
    const earlier = sql<boolean>`not exists (select 1 from kernel_runs as earlier
      where earlier.session_id = kernel_runs.session_id and earlier.turn < kernel_runs.turn
      and earlier.status in ('queued', 'running'))`
    return this.commits.single((db) => {
      let candidates = db
        .selectFrom('kernel_runs')
        .select('id')
        .where(open)
        .where(free)
        .where(suspects ? suspect : sql<boolean>`not ${suspect}`)
        .where(earlier)
        .orderBy('created_at')
        .limit(limit)
      if (except.length > 0) candidates = candidates.where('id', 'not in', [...except])
      if (this.dialect === 'postgres') candidates = candidates.forUpdate().skipLocked()
      return db
        .with('candidates', () => candidates)
        .updateTable('kernel_runs')
        .set((eb) => ({
          attempts: sql<number>`case when owner is null then attempts else attempts + 1 end`,
          owner: this.owner,
          epoch: eb('epoch', '+', 1),
          status: 'running' as const,
          last_seq: eb('last_seq', '+', skip),
          lease_until: this.leaseEnd,
          on_trial: suspects ? 1 : 0,
        }))
        .where('id', 'in', (eb) => eb.selectFrom('candidates').select('id'))
        .returningAll()
        .execute()
    })
  }

  /** Lets a queued run begin, once every earlier one of its session has ended. */
  async promote({ id, epoch }: Held): Promise<boolean> {
    const { numUpdatedRows } = await this.commits.single((db) =>
      db
        .updateTable('kernel_runs')
        .set({ status: 'running', lease_until: this.leaseEnd })
        .where('id', '=', id)
        .where('owner', '=', this.owner)
        .where('epoch', '=', epoch)
        .where(
          sql<boolean>`not exists (select 1 from kernel_runs as earlier
            where earlier.session_id = kernel_runs.session_id and earlier.turn < kernel_runs.turn
            and earlier.status in ('queued', 'running'))`,
        )
        .executeTakeFirst(),
    )
    return numUpdatedRows > 0n
  }

  /** Gives runs back, so that another process takes them at once. */
  async release(ids: readonly string[]): Promise<void> {
    for (const some of slices(ids))
      await this.commits.single((db) =>
        db
          .updateTable('kernel_runs')
          .set({ owner: null, lease_until: 0, on_trial: 0 })
          .where('id', 'in', some)
          .where('owner', '=', this.owner)
          .where(open)
          .execute(),
      )
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
  async openRun(sessionId: string) {
    const row = await this.db
      .selectFrom('kernel_runs')
      .select([
        'id',
        'status',
        sql<number>`case when owner is not null and lease_until >= ${this.#now} then 1 else 0 end`.as(
          'held',
        ),
      ])
      .where('session_id', '=', sessionId)
      .where(openOrWaiting)
      .orderBy('turn', 'desc')
      .limit(1)
      .executeTakeFirst()
    return row && { id: row.id, status: row.status, isHeld: row.held === 1 }
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

  /** The messages before a position, newest first. */
  stepsBefore(sessionId: string, position: number, limit: number): Promise<StepRow[]> {
    return this.db
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('position', '<', position)
      .where('kind', 'in', ['user', 'assistant', 'tool'])
      .orderBy('position', 'desc')
      .limit(limit)
      .execute()
  }

  /**
   * Marks a write before it starts. Undefined: this process does not hold the run any more. The lock on
   * the run's row makes a takeover wait, so it either sees the mark or prevents it.
   */
  async beginEffect(
    held: Held,
    toolCallId: string,
    tool: string,
  ): Promise<EffectState | undefined> {
    const fresh = await this.commits.single((db) => {
      let run = db
        .selectFrom('kernel_runs')
        .select((eb) => [
          'session_id',
          'root_id',
          eb.val(toolCallId).as('tool_call_id'),
          eb.val(tool).as('tool'),
          eb.val<'started'>('started').as('state'),
        ])
        .where('id', '=', held.id)
        .where('owner', '=', this.owner)
        .where('epoch', '=', held.epoch)
      if (this.dialect === 'postgres') run = run.forUpdate()
      return db
        .insertInto('kernel_effects')
        .columns(['session_id', 'root_id', 'tool_call_id', 'tool', 'state'])
        .expression(run)
        .onConflict((conflict) => conflict.doNothing())
        .returning('state')
        .execute()
    })
    if (fresh.length > 0) return { state: 'new' }
    const known = await this.db
      .selectFrom('kernel_runs as run')
      .leftJoin('kernel_effects as effect', (join) =>
        join
          .onRef('effect.session_id', '=', 'run.session_id')
          .onRef('effect.root_id', '=', 'run.root_id')
          .on('effect.tool_call_id', '=', toolCallId),
      )
      .select(['effect.state', 'effect.content', 'effect.failed'])
      .where('run.id', '=', held.id)
      .where('run.owner', '=', this.owner)
      .where('run.epoch', '=', held.epoch)
      .executeTakeFirst()
    if (!known) return undefined
    if (known.state !== 'done') return { state: 'unknown' }
    return { state: 'done', content: JSON.parse(known.content ?? '""'), failed: known.failed === 1 }
  }

  /**
   * Notes what came of a write. Not fenced: whoever carried it out knows best, and its successor has
   * either not asked yet or has called it unknown.
   */
  async finishEffect(
    run: Pick<RunRow, 'session_id' | 'root_id'>,
    toolCallId: string,
    content: string,
    failed: boolean,
  ): Promise<void> {
    await this.commits.single((db) =>
      db
        .updateTable('kernel_effects')
        .set({ state: 'done', content: JSON.stringify(content), failed: failed ? 1 : 0 })
        .where('session_id', '=', run.session_id)
        .where('root_id', '=', run.root_id)
        .where('tool_call_id', '=', toolCallId)
        .where('state', '=', 'started')
        .execute(),
    )
  }
}

export const toBefore = (place: Place | undefined): Before => ({
  previous: place?.previous ?? undefined,
  checkpoint: place?.checkpoint ?? undefined,
})

/** Lists in pieces that one statement takes. */
export function* slices(ids: readonly string[], size = idsPerStatement): Generator<string[]> {
  for (let i = 0; i < ids.length; i += size) yield ids.slice(i, i + size)
}
