import { type Selectable, sql } from 'kysely'
import { prepared } from '../../store/prepared.ts'
import { isAtWork, isOpenOrWaiting } from '../indexes/open-runs.ts'
import type { RunStore } from './store.ts'
import type { RunsTable, StepsTable } from './tables.ts'
import { tellsAs, type Telling } from '../../store/channels/channels.ts'

/** What the database knows of a session in which a run is to begin. */
interface Look extends Place {
  /** The run of the user that has this name already. */
  readonly known: string | null
  /** The waiting turn of the user that has this name already. */
  readonly waits: string | null
  /** How many turns wait in the session. */
  readonly waitingTurns: number
  readonly hasOpenRuns: number
  /** Other sessions of the user in which a turn is under way that nobody has stopped. */
  readonly busySessions: number
  readonly wasStopped: number
}

/** Where a session stands. */
export interface Place {
  readonly previous: string | null
  readonly redactions: number | null
  readonly checkpoint: string | null
}

type NewRun = Pick<
  Selectable<RunsTable>,
  | 'id'
  | 'session_id'
  | 'did'
  | 'turn'
  | 'root_id'
  | 'root_turn'
  | 'continues'
  | 'decision'
  | 'request_id'
  | 'status'
  | 'stop'
  | 'steps'
  | 'cause'
>

type Words = Pick<StepsTable, 'session_id' | 'position' | 'run_id' | 'kind' | 'body'>

/** Any number will do, as long as every version of the runtime takes the same. */
const turnsLock = 7021

/** The statements by which every run begins: compiled once for a store, and no more of them than needed. */
export const beginQueries = (store: RunStore) => ({
  takeTurn: takeTurn(store),
  look: look(store),
  ...countTurns(store),
  insertRun: insertRun(store),
  insertRequest: prepared(store.db, (p: { run_id: string; request: string }) =>
    store.db.insertInto('kernel_run_requests').values({ run_id: p.run_id, request: p.request }),
  ),
  insertWords: insertWords(store),
  chooseModel: prepared(store.db, (p: { session: string; model: string | null }) =>
    store.db.updateTable('kernel_sessions').set({ model: p.model }).where('id', '=', p.session),
  ),
})

/** Takes the session's row and its next turn. */
const takeTurn = ({ db, now, dialect }: RunStore) =>
  prepared(db, (p: { session: string; did: string; title: string | null }) =>
    db
      .updateTable('kernel_sessions')
      .set((eb) => ({
        turns: eb('turns', '+', 1),
        updated_at: now,
        title: sql<string>`coalesce(title, ${p.title})`,
      }))
      .where('id', '=', p.session)
      .where('did', '=', p.did)
      .returning(['turns', 'room', 'model', 'shared'])
      .$if(dialect === 'postgres', (update) =>
        // The turns of one user begin one after the other: each sees those before it, wherever they are carried.
        update.returning(
          sql`pg_advisory_xact_lock(${turnsLock}::int, hashtext(${p.did}))`.as('locked'),
        ),
      ),
  )

/** Looks at the session in which the run is to begin. */
const look = ({ db }: RunStore) =>
  prepared(db, (p: { session: string; did: string; request: string; turn: number }) => ({
    compile: () =>
      sql<Look>`select
        coalesce(
          (select id from kernel_runs
            where session_id = ${p.session} and request_id = ${p.request} and namesake <> 0),
          (select id from kernel_runs
            where did = ${p.did} and request_id = ${p.request} and namesake = 0)) as known,
        (select id from kernel_waiting_turns
          where did = ${p.did} and request_id = ${p.request}) as waits,
        (select count(*) from kernel_waiting_turns
          where session_id = ${p.session}) as "waitingTurns",
        (select count(*) from kernel_runs where session_id = ${p.session} and did = ${p.did}
          and ${isOpenOrWaiting}) as "hasOpenRuns",
        (select count(distinct session_id) from kernel_runs where did = ${p.did}
          and ${isAtWork} and stop is null and continues is null
          and session_id <> ${p.session}) as "busySessions",
        (select count(*) from kernel_early_stops
          where session_id = ${p.session} and request_id = ${p.request}) as "wasStopped",
        ${before(p.session, p.turn)}`.compile(db),
  }))

/** Counts a turn of the day: for the user alone, or for the user and the address. */
function countTurns({ db, today }: RunStore) {
  const counted = (names: readonly string[]) =>
    db
      .insertInto('kernel_turn_counts')
      .values(names.map((who) => ({ who, day: today, turns: 1 })))
      .onConflict((conflict) =>
        conflict
          .columns(['who', 'day'])
          .doUpdateSet((eb) => ({ turns: eb('kernel_turn_counts.turns', '+', 1) })),
      )
      .returning(['who', 'turns'])
  return {
    countTurn: prepared(db, (p: { who: string }) => counted([p.who])),
    // Both in one statement, always in this order: no two transactions can wait for each other.
    countTurnThere: prepared(db, (p: { who: string; there: string }) => counted([p.who, p.there])),
  }
}

/** Inserts the run's row, and tells the other replicas of the run. */
const insertRun = ({ db, owner, now, leaseEnd, dialect }: RunStore) =>
  prepared(db, (p: NewRun & Telling) => {
    // By name, because `p` stands in for values and has no keys of its own.
    const run = Object.fromEntries(columns.map((name) => [name, p[name]])) as unknown as NewRun
    const { to, payload, told } = p
    return db
      .insertInto('kernel_runs')
      .values({
        ...run,
        owner,
        epoch: 1,
        attempts: 0,
        version: 0,
        last_seq: 0,
        kept_seq: 0,
        kept_length: 0,
        purged: 0,
        lease_until: leaseEnd,
        created_at: now,
      })
      .returningAll()
      .$if(dialect === 'postgres', (insert) =>
        // Every process that holds a socket of this session hears of the run once the run is recorded.
        insert.returning(tellsAs({ to, payload, told }).as('told')),
      )
  })

/** Inserts the words that begin a run, the first row of the run's journal. */
export const insertWords = ({ db, now }: RunStore) =>
  prepared(db, (p: Words) =>
    db.insertInto('kernel_steps').values({
      session_id: p.session_id,
      position: p.position,
      run_id: p.run_id,
      root_id: p.run_id,
      step: 0,
      kind: p.kind,
      body: p.body,
      created_at: now,
    }),
  )

const columns = [
  'id',
  'session_id',
  'did',
  'turn',
  'root_id',
  'root_turn',
  'continues',
  'decision',
  'request_id',
  'status',
  'stop',
  'steps',
  'cause',
] as const

/**
 * The session's run before a turn, and the checkpoint that counts: the last that a run left behind, unless it
 * was moved after the run of that very turn had ended.
 */
export const before = (session: string, turn: number) => sql<Place>`
  (select id from kernel_runs where session_id = ${session} and turn < ${turn}
    order by turn desc limit 1) as previous,
  (select redactions from kernel_sessions where id = ${session}) as redactions,
  (select checkpoint from (
    select * from (select turn, checkpoint, 0 as moved from kernel_runs
      where session_id = ${session} and turn < ${turn} and checkpoint is not null
      order by turn desc limit 1) as ended
    union all
    select * from (select turn, checkpoint, 1 as moved from kernel_heads
      where session_id = ${session} and turn < ${turn} order by turn desc limit 1) as heads
  ) as either order by turn desc, moved desc limit 1) as checkpoint`
