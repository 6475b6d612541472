import { sql } from 'kysely'
import { isAtWork } from '../indexes/open-runs.ts'
import type { RunRow, RunStore } from './store.ts'

/** How many processes may die with a run, without a step of its journal between, before no process carries it again. */
export const deathsAtMost = 2
/** How many dead processes one sweep looks at; the next sweep looks at the others. */
const processesAtOnce = 100
const dayMs = 24 * 3_600_000
/** Any number will do: replicas that count deaths at the same time wait for each other under it. */
const countingLock = 7_202_101

/** Whether the process that holds the run has given a sign of life within its lease. */
export const isAlive = ({ leaseNow }: RunStore) =>
  sql<boolean>`exists (select 1 from kernel_processes as process
    where process.owner = kernel_runs.owner and process.alive_until >= ${leaseNow})`

/** Says that this process lives. On SQLite there is no other process that could ask. */
export async function beat(store: RunStore): Promise<void> {
  if (store.dialect === 'sqlite') return
  await store.db
    .insertInto('kernel_processes')
    .values({ owner: store.owner, alive_until: store.leaseEnd })
    .onConflict((conflict) => conflict.column('owner').doUpdateSet({ alive_until: store.leaseEnd }))
    .execute()
}

/** Says that this process ends in an orderly way. */
export async function leave(store: RunStore): Promise<void> {
  if (store.dialect === 'sqlite') return
  await store.db.deleteFrom('kernel_processes').where('owner', '=', store.owner).execute()
}

/**
 * Takes back the deaths that were counted for this process. After a time out of reach that is longer than a lease, other
 * processes may have taken this one for dead; a database that was away twice must not quarantine runs.
 */
export async function takeBackDeaths(store: RunStore): Promise<void> {
  if (store.dialect === 'sqlite') return
  await store.db
    .updateTable('kernel_runs')
    .set((eb) => ({ deaths: eb('deaths', '-', 1), died_with: null }))
    .where('died_with', '=', store.owner)
    .where('deaths', '>', 0)
    .where(isAtWork)
    .execute()
}

/**
 * Finds processes that died and counts the death for every run that they carried, before anything of these runs is
 * touched; the runs are free then. On SQLite another owner can only be a dead process, for the folder is locked. On
 * PostgreSQL a process is dead when nothing of it has given a sign of life for a lease: neither its own row nor any
 * of its runs. Where one of its runs was on trial, the death is that run's doing, and no other goes beyond its first.
 */
export async function countDeaths(store: RunStore): Promise<void> {
  if ((await deadProcesses(store)).length === 0) return
  await store.commits.atomic(async (db) => {
    if (store.dialect === 'postgres')
      await sql`select pg_advisory_xact_lock(${countingLock})`.execute(db)
    for (const { owner, tried } of await deadProcesses(store, db))
      await db
        .updateTable('kernel_runs')
        .set({
          attempts: sql<number>`attempts + 1`,
          deaths: tried
            ? sql<number>`case when on_trial = 1 or deaths = 0 then deaths + 1 else deaths end`
            : sql<number>`deaths + 1`,
          died_with: owner,
          on_trial: 0,
          owner: null,
          lease_until: 0,
        })
        .where('owner', '=', owner)
        .where(isAtWork)
        .execute()
  })
}

async function deadProcesses(store: RunStore, db = store.db) {
  let dead = db
    .selectFrom('kernel_runs')
    .select(['owner', (eb) => eb.fn.max('on_trial').as('tried')])
    .where(isAtWork)
    .where('owner', '<>', store.owner)
    .groupBy('owner')
    .limit(processesAtOnce)
  if (store.dialect === 'postgres')
    dead = dead.having(sql<boolean>`max(lease_until) < ${store.leaseNow} and not ${isAlive(store)}`)
  const rows = await dead.execute()
  return rows.map(({ owner, tried }) => ({ owner, tried: Number(tried) === 1 }))
}

/** How many runs wait for a trial of their own. */
export async function suspectsWaiting(store: RunStore): Promise<number> {
  const { count } = await store.db
    .selectFrom('kernel_runs')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where(isAtWork)
    .where('owner', 'is', null)
    .where('deaths', '>', 0)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Ends the trial of a run that was carried for as long as a trial lasts: the next suspect may begin beside it. */
export async function endTrial(store: RunStore, { id, epoch }: RunRow): Promise<void> {
  await store.commits.single((db) =>
    db
      .updateTable('kernel_runs')
      .set({ on_trial: 0 })
      .where('id', '=', id)
      .where('epoch', '=', epoch)
      .where('owner', '=', store.owner)
      .execute(),
  )
}

/**
 * Ends what this process has on trial: a run that it lost meanwhile, because it stood still for longer than a lease, would else
 * be blamed together with the run that comes on trial next.
 */
export async function endTrials(db: RunStore['db'], owner: string): Promise<void> {
  await db
    .updateTable('kernel_runs')
    .set({ on_trial: 0 })
    .where(isAtWork)
    .where('owner', '=', owner)
    .where('on_trial', '=', 1)
    .execute()
}

/** Deletes the rows of processes that died. */
export async function forgetProcesses(store: RunStore): Promise<void> {
  await store.commits.single((db) =>
    db
      .deleteFrom('kernel_processes')
      .where('alive_until', '<', sql<number>`${store.leaseNow} - ${dayMs}`)
      .execute(),
  )
}
