import { sql } from 'kysely'
import { isKnownForm } from '../stored-version.ts'
import { deathsAtMost, endTrials, isAlive } from './deaths.ts'
import { isAtWork } from '../indexes/open-runs.ts'
import { type Held, type RunRow, type RunStore, slices } from './store.ts'

/** Which runs a process wants to take over, and how many. */
export interface RunsToClaim {
  readonly limit: number
  /** Runs that this process carries, whatever the database says. */
  readonly except: readonly string[]
  /** How far the event numbers of a claimed run jump. */
  readonly skip: number
  /** True takes only runs with which a process died once, false only all others. */
  readonly suspects?: boolean
}

/** What the database says of a run whose lease this process extended. */
export type HeldRow = Pick<RunRow, 'id' | 'epoch' | 'stop'>

const isFirstOfSession = sql<boolean>`not exists (select 1 from kernel_runs as earlier
  where earlier.session_id = kernel_runs.session_id and earlier.turn < kernel_runs.turn
  and earlier.status in ('queued', 'running'))`

/** Extends the leases of these runs; resolves to the rows of those that this process still holds. */
export async function extendLeases(store: RunStore, ids: readonly string[]): Promise<HeldRow[]> {
  const held: HeldRow[] = []
  for (const some of slices(ids))
    held.push(...(await store.commits.single((db) => extend(store, db, some))))
  return held
}

async function extend(
  store: RunStore,
  db: RunStore['db'],
  ids: readonly string[],
): Promise<HeldRow[]> {
  const mine = sql`id in (${sql.join(ids)}) and owner = ${store.owner} and ${isAtWork}`
  const extension = sql`update kernel_runs set lease_until = ${store.leaseEnd}`
  // A write for many runs holds several of these rows, and would wait in a circle with a statement that holds others of them.
  // That write extends the lease itself; where somebody else holds a row, the next heartbeat comes before the lease ends.
  const extending =
    store.dialect === 'sqlite'
      ? sql<HeldRow>`${extension} where ${mine} returning id, epoch, stop`
      : sql<HeldRow>`with
          free as (select id from kernel_runs where ${mine} for no key update skip locked),
          extended as (${extension} where id in (select id from free))
          select id, epoch, stop from kernel_runs where ${mine}`
  return (await extending.execute(db)).rows
}

/**
 * Takes runs that no process carries: released runs, runs of dead processes once `countDeaths` has counted the deaths, and
 * runs whose lease ran out under a process that lives. The claim counts an attempt for a run of the last kind;
 * `countDeaths` has counted the attempt for a run of a dead process. A run whose process died once is a suspect. Only
 * a claim with `suspects` takes suspects; they are on trial then, and nothing else of this process is. The claim skips the
 * numbers of the events that the last owner may have shown and not written, so that no client takes a new event for one that
 * the client has.
 */
export function claimRuns(
  store: RunStore,
  { limit, except, skip, suspects = false }: RunsToClaim,
): Promise<RunRow[]> {
  const { leaseNow, leaseMs, owner, dialect, leaseEnd } = store
  // A process that is killed between its sign of life and the leases leaves a sign that outlives them by a heartbeat, which is
  // a third of a lease. After half of one a sign is that of a process that has dropped the run.
  const isDropped = sql<boolean>`(lease_until < ${leaseNow} - ${Math.ceil(leaseMs / 2)} and ${isAlive(store)})`
  const lapsed =
    dialect === 'postgres'
      ? sql<boolean>`(lease_until < ${leaseNow} and (owner = ${owner} or ${isDropped}))`
      : sql<boolean>`lease_until < ${leaseNow}`
  const free = sql<boolean>`(owner is null or ${lapsed})`
  const suspect = sql<boolean>`(deaths between 1 and ${deathsAtMost - 1} and stop is null)`
  const claim = (db: RunStore['db']): Promise<RunRow[]> => {
    let candidates = db
      .selectFrom('kernel_runs')
      .select('id')
      .where(isAtWork)
      .where(isKnownForm)
      .where(free)
      .where(suspects ? suspect : sql<boolean>`not ${suspect}`)
      .where(isFirstOfSession)
      .orderBy('created_at')
      .limit(limit)
    if (except.length > 0) candidates = candidates.where('id', 'not in', [...except])
    if (dialect === 'postgres') candidates = candidates.forUpdate().skipLocked()
    return db
      .with('candidates', () => candidates)
      .updateTable('kernel_runs')
      .set((eb) => ({
        attempts: sql<number>`case when owner is null then attempts else attempts + 1 end`,
        owner,
        epoch: eb('epoch', '+', 1),
        status: 'running' as const,
        last_seq: eb('last_seq', '+', skip),
        lease_until: leaseEnd,
        on_trial: suspects ? 1 : 0,
      }))
      .where('id', 'in', (eb) => eb.selectFrom('candidates').select('id'))
      .returningAll()
      .execute()
  }
  if (!suspects) return store.commits.single(claim)
  return store.commits.atomic(async (db) => {
    await endTrials(db, owner)
    return claim(db)
  })
}

/** Lets a queued run begin once every earlier run of its session has ended; false while one goes on. */
export async function promoteRun(store: RunStore, { id, epoch }: Held): Promise<boolean> {
  const { numUpdatedRows } = await store.commits.single((db) =>
    db
      .updateTable('kernel_runs')
      .set({ status: 'running', lease_until: store.leaseEnd })
      .where('id', '=', id)
      .where('owner', '=', store.owner)
      .where('epoch', '=', epoch)
      .where(isFirstOfSession)
      .executeTakeFirst(),
  )
  return numUpdatedRows > 0n
}

/** Gives runs back, so that another process takes them at once. */
export async function releaseRuns(store: RunStore, ids: readonly string[]): Promise<void> {
  for (const some of slices(ids))
    await store.commits.single((db) =>
      db
        .updateTable('kernel_runs')
        .set({ owner: null, lease_until: 0, on_trial: 0 })
        .where('id', 'in', some)
        .where('owner', '=', store.owner)
        .where(isAtWork)
        .execute(),
    )
}
