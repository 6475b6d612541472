import { type Selectable, sql } from 'kysely'
import { prepared } from '../../store/prepared.ts'
import { isOpenIn } from '../indexes/open-runs.ts'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase, RunsTable } from '../journal/tables.ts'
import type { StepText } from '../journal/steps.ts'
import type { UnsettledTable } from '../unsettled.ts'

/** A mark says that a consumer has yet to hear of the end of a run: its row, without the times. */
export type Mark = Pick<
  Selectable<UnsettledTable>,
  'session_id' | 'root_id' | 'consumer' | 'tries' | 'facts'
>

/** The first run of a chain. */
export type Root = Pick<UnsettledTable, 'session_id' | 'root_id'>

/** The longest wait before a consumer that failed is called again. */
export const longestWaitMs = 60_000

/** A run of a chain, as its end is told. */
type EndedRun = Pick<Selectable<RunsTable>, 'id' | 'did' | 'status' | 'cause'> & {
  readonly created_at: number
  readonly ended_at: number
  /** What was asked for, of the first run alone. */
  readonly request: string | null
  /** How many writes of the chain are marked. */
  readonly effects: number | string
}

/**
 * The statements by which every run of an app is admitted and settled whose plugins want that. They are compiled once:
 * Kysely takes longer to build them than a database to answer them.
 */
export class GateQueries {
  readonly #db: RunDatabase
  readonly #look
  readonly #take
  readonly #hold
  readonly #runs
  readonly #steps
  readonly #effects
  readonly #mark
  readonly #due
  readonly #isShared: boolean

  constructor(store: RunStore) {
    this.#db = store.db
    this.#isShared = store.dialect === 'postgres'
    this.#look = look(store)
    this.#take = take(store)
    this.#hold = hold(store)
    this.#runs = runs(store)
    this.#steps = steps(store)
    this.#effects = effects(store)
    this.#mark = byLength((count) => mark(store, count))
    this.#due = byLength((count) => due(store, count))
  }

  /** Whether the session is the user's, and whether the user has a turn of that name, which has begun or waits. */
  async look(p: { session: string; did: string; request: string }): Promise<Look> {
    const [found] = (await this.#look(p)).rows
    return { isOwn: found?.own === 1, isKnown: found?.known === 1 }
  }

  /** Deletes a mark; false when another process has done so, or is about to. */
  async take(trx: RunDatabase, { session_id, root_id, consumer }: Mark): Promise<boolean> {
    const named = { session: session_id, root: root_id, consumer }
    if (this.#isShared && (await this.#hold(named, trx)).rows.length === 0) return false
    return ((await this.#take(named, trx)).numAffectedRows ?? 0n) > 0n
  }

  /** The runs of a chain, in order. */
  async runs(db: RunDatabase, { session_id, root_id }: Root): Promise<readonly EndedRun[]> {
    return (await this.#runs({ session: session_id, root: root_id }, db)).rows
  }

  /** The rows of the journal of a chain, in order. */
  async steps(db: RunDatabase, { session_id, root_id }: Root): Promise<readonly StepText[]> {
    return (await this.#steps({ session: session_id, root: root_id }, db)).rows
  }

  /** What is known of the writes of a chain. */
  async effects(db: RunDatabase, { session_id, root_id }: Root) {
    return (await this.#effects({ session: session_id, root: root_id }, db)).rows
  }

  /** Notes in the transaction that records a run who has to hear of its end. */
  async mark(trx: RunDatabase, root: Root, consumers: readonly string[]): Promise<void> {
    if (consumers.length > 0)
      await this.#mark(consumers.length)(
        { session: root.session_id, root: root.root_id, ...byPlace(consumers) },
        trx,
      )
  }

  /** The marks of runs that have ended, for those of the consumers that are to hear now. */
  async due(consumers: readonly string[], limit: number): Promise<readonly Mark[]> {
    if (consumers.length === 0) return []
    return (await this.#due(consumers.length)({ limit, ...byPlace(consumers) }, this.#db)).rows
  }
}

/** What is known of a message before its turn begins. */
interface Look {
  readonly isOwn: boolean
  readonly isKnown: boolean
}

interface Named {
  readonly session: string
  readonly root: string
}

/** Strings by their places: a statement with a list is another one for every length of it. */
type Listed = Readonly<Record<number, string>>

const byPlace = (list: readonly string[]): Listed => ({ ...list })
const places = (count: number) => Array.from({ length: count }, (_, i) => i)

/** One statement for each length of a list. There are no more lengths than plugins. */
function byLength<T>(make: (count: number) => T): (count: number) => T {
  const made = new Map<number, T>()
  return (count) => {
    const found = made.get(count) ?? make(count)
    made.set(count, found)
    return found
  }
}

const look = ({ db }: RunStore) =>
  prepared(db, (p: { session: string; did: string; request: string }) => ({
    compile: () =>
      sql<{ own: number; known: number }>`select
        case when exists (select 1 from kernel_sessions
          where id = ${p.session} and did = ${p.did}) then 1 else 0 end as own,
        case when exists (select 1 from kernel_runs
            where did = ${p.did} and request_id = ${p.request} and namesake = 0)
          or exists (select 1 from kernel_waiting_turns
            where did = ${p.did} and request_id = ${p.request}) then 1 else 0 end as known`.compile(
        db,
      ),
  }))

const take = ({ db }: RunStore) =>
  prepared(db, (p: Named & { readonly consumer: string }) =>
    db
      .deleteFrom('kernel_unsettled')
      .where('session_id', '=', p.session)
      .where('root_id', '=', p.root)
      .where('consumer', '=', p.consumer),
  )

const hold = ({ db }: RunStore) =>
  prepared(db, (p: Named & { readonly consumer: string }) =>
    db
      .selectFrom('kernel_unsettled')
      .select('root_id')
      .where('session_id', '=', p.session)
      .where('root_id', '=', p.root)
      .where('consumer', '=', p.consumer)
      .forUpdate()
      .skipLocked(),
  )

const runs = ({ db, now }: RunStore) =>
  prepared(db, (p: Named) => ({
    compile: () =>
      sql<EndedRun>`select run.id, run.did, run.status, run.cause, run.created_at,
          coalesce(run.ended_at, ${now}) as ended_at, asked.request,
          (select count(*) from kernel_effects as effect where effect.session_id = ${p.session}
            and effect.root_id = ${p.root}) as effects
        from kernel_runs as run left join kernel_run_requests as asked
          on asked.run_id = run.id and run.id = run.root_id
        where run.session_id = ${p.session} and run.root_id = ${p.root}
        order by run.turn`.compile(db),
  }))

const steps = ({ db }: RunStore) =>
  prepared(db, (p: Named) =>
    db
      .selectFrom('kernel_steps')
      .select(['kind', 'body'])
      .where('session_id', '=', p.session)
      .where('root_id', '=', p.root)
      .orderBy('position'),
  )

const effects = ({ db }: RunStore) =>
  prepared(db, (p: Named) =>
    db
      .selectFrom('kernel_effects')
      .select(['tool_call_id', 'state', 'failed'])
      .where('session_id', '=', p.session)
      .where('root_id', '=', p.root),
  )

const mark = ({ db, now }: RunStore, count: number) =>
  prepared(db, (p: Named & Listed) =>
    db.insertInto('kernel_unsettled').values(
      places(count).map((i) => ({
        session_id: p.session,
        root_id: p.root,
        consumer: p[i] ?? '',
        created_at: now,
      })),
    ),
  )

const due = ({ db, now }: RunStore, count: number) =>
  prepared(db, (p: { readonly limit: number } & Listed) =>
    db
      .selectFrom('kernel_unsettled')
      .select(['session_id', 'root_id', 'consumer', 'tries', 'facts'])
      .where(
        'consumer',
        'in',
        places(count).map((i) => p[i] ?? ''),
      )
      // A time further ahead than any wait was written before the clock was turned back.
      .where(sql<boolean>`(due_at <= ${now} or due_at > ${now} + ${sql.lit(longestWaitMs)})`)
      .where(
        sql<boolean>`(facts is not null or not exists (select 1 from kernel_runs as run
        where run.root_id = kernel_unsettled.root_id
        and ${isOpenIn(sql.ref('kernel_unsettled.session_id'), 'run')}))`,
      )
      .orderBy('due_at')
      .orderBy('created_at')
      .limit(p.limit),
  )
