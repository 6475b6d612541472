import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../../plugin.ts'
import type { Settler } from '../gates/settler.ts'
import { releaseRuns } from '../journal/leases.ts'
import type { RunStore } from '../journal/store.ts'
import type { Carrier } from './carrier.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { Replicas } from './replicas.ts'

/** The parts that hold runs. */
export interface Holders {
  readonly store: RunStore
  readonly carrier: Carrier
  readonly keeper: LeaseKeeper
  readonly settler: Settler
  readonly replicas: Replicas
  readonly log: Log
}

/** Lets go of every run of this process, so that other processes take the runs over. No wait is longer than `graceMs`. */
export async function letGo(
  { store, carrier, keeper, settler, replicas, log }: Holders,
  graceMs: number,
): Promise<void> {
  const grace = () => sleep(graceMs, undefined, { ref: false })
  await keeper.close()
  const runs = [...carrier.live.values()]
  // What was said so far, before an engine that lets go leaves it behind: it may wait for its batch.
  await Promise.race([Promise.allSettled(runs.map((run) => run.feed.flush())), grace()])
  for (const run of runs) run.handOver()
  await Promise.race([carrier.settled(), grace()])
  for (const run of runs) run.feed.close()
  await Promise.race([Promise.allSettled(runs.map((run) => run.feed.flush())), grace()])
  const runIds = runs.map(({ runId }) => runId)
  try {
    await releaseRuns(store, runIds)
    await keeper.leave()
    replicas.tellFree()
  } catch (error) {
    log.warn({ err: error }, 'Runs could not be released; their leases run out')
  }
  for (const run of runs) run.feed.lose('the server closes')
  await Promise.race([settler.close(), grace()])
}
