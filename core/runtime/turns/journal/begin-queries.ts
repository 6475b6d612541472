import { sql } from 'kysely'
import { prepared } from '../../store/prepared.ts'
import type { RunStore } from './store.ts'
import type { RunsTable } from './tables.ts'
import { runChannel } from './write.ts'

/** What the database knows of a session in which a run is to begin. */
interface Look extends Place {
  /** The run that has this name already. */
  readonly known: string | null
  readonly hasOpenRuns: number
  /** Other sessions of the user in which a turn is under way that nobody has stopped. */
  readonly busySessions: number
  readonly wasStopped: number
}

/** Where a session stands. */
export interface Place {
  readonly previous: string | null
  readonly checkpoint: string | null
}

type NewRun = Pick<
  RunsTable,
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
>

/** Any number will do, as long as every version of the runtime takes the same. */
const turnsLock = 7021

/** What is asked at the beginning of every run: compiled once, and no more statements than needed. */
export function beginQueries(store: RunStore) {
  const { db, now, leaseEnd } = store
  const counted = (names: readonly string[]) =>
    db
      .insertInto('kernel_turn_counts')
      .values(names.map((who) => ({ who, day: store.today, turns: 1 })))
      .onConflict((conflict) =>
        conflict
          .columns(['who', 'day'])
          .doUpdateSet((eb) => ({ turns: eb('kernel_turn_counts.turns', '+', 1) })),
      )
      .returning(['who', 'turns'])

  return {
    /** Takes the session's row and its next turn. */
    takeTurn: prepared(db, (p: { session: string; did: string; title: string }) =>
      db
        .updateTable('kernel_sessions')
        .set((eb) => ({
          turns: eb('turns', '+', 1),
          updated_at: now,
          title: sql<string>`coalesce(title, ${p.title})`,
        }))
        .where('id', '=', p.session)
        .where('did', '=', p.did)
        .returning('turns')
        .$if(store.dialect === 'postgres', (update) =>
          // The turns of one user begin one after the other: each sees those before it, wherever they are carried.
          update.returning(
            sql`pg_advisory_xact_lock(${turnsLock}::int, hashtext(${p.did}))`.as('locked'),
          ),
        ),
    ),

    look: prepared(db, (p: { session: string; did: string; request: string; turn: number }) => ({
      compile: () =>
        sql<Look>`select
          (select id from kernel_runs
            where session_id = ${p.session} and request_id = ${p.request}) as known,
          (select count(*) from kernel_runs where session_id = ${p.session}
            and status in ('queued', 'running', 'waiting')) as "hasOpenRuns",
          (select count(distinct session_id) from kernel_runs where did = ${p.did}
            and status in ('queued', 'running') and stop is null and continues is null
            and session_id <> ${p.session}) as "busySessions",
          (select count(*) from kernel_early_stops
            where session_id = ${p.session} and request_id = ${p.request}) as "wasStopped",
          ${before(p.session, p.turn)}`.compile(db),
    })),

    /** Counts a turn of the user for the day. */
    countTurn: prepared(db, (p: { who: string }) => counted([p.who])),

    /** The same, and one of the address. Both in one statement, always in this order: no two can wait for each other. */
    countTurnThere: prepared(db, (p: { who: string; there: string }) => counted([p.who, p.there])),

    insertRun: prepared(db, (p: NewRun & { readonly told: string }) => {
      const { told, ...run } = Object.fromEntries(
        [...columns, 'told' as const].map((name) => [name, p[name]]),
      ) as unknown as typeof p // by name, because `p` stands in for values and has no keys of its own
      return db
        .insertInto('kernel_runs')
        .values({
          ...run,
          owner: store.owner,
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
        .$if(store.dialect === 'postgres', (insert) =>
          // Whoever holds a socket of this session hears of the run once it is recorded.
          insert.returning(sql<string>`pg_notify(${runChannel}, ${told})`.as('told')),
        )
    }),

    insertRequest: prepared(db, (p: { run_id: string; request: string }) =>
      db.insertInto('kernel_run_requests').values({ run_id: p.run_id, request: p.request }),
    ),

    insertWords: prepared(
      db,
      (p: { session_id: string; position: number; run_id: string; body: string }) =>
        db.insertInto('kernel_steps').values({
          session_id: p.session_id,
          position: p.position,
          run_id: p.run_id,
          root_id: p.run_id,
          step: 0,
          kind: 'user',
          body: p.body,
          created_at: now,
        }),
    ),
  }
}

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
] as const

/**
 * The session's run before a turn, and the checkpoint that counts: the last that a run left behind, unless it
 * was moved after the run of that very turn had ended.
 */
export const before = (session: string, turn: number) => sql<Place>`
  (select id from kernel_runs where session_id = ${session} and turn < ${turn}
    order by turn desc limit 1) as previous,
  (select checkpoint from (
    select * from (select turn, checkpoint, 0 as moved from kernel_runs
      where session_id = ${session} and turn < ${turn} and checkpoint is not null
      order by turn desc limit 1) as ended
    union all
    select * from (select turn, checkpoint, 1 as moved from kernel_heads
      where session_id = ${session} and turn < ${turn} order by turn desc limit 1) as heads
  ) as either order by turn desc, moved desc limit 1) as checkpoint`
