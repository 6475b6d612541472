import type { RunStore } from '../journal/store.ts'
import { countWaiting } from '../waiting/look.ts'
import type { Carrier } from './carrier.ts'

/** What goes on in a session: the run under way, or the one that waits for a person's decision. */
export interface Underway {
  readonly run: { readonly runId: string; readonly status: string } | null
  readonly waiting?: { readonly runId: string }
  /** How many turns wait until the session is free. */
  readonly waitingTurns: number
}

/** Looks up what goes on in a session. A run that nobody holds, or that was taken over, is said to be recovering. */
export async function lookUnderway(
  store: RunStore,
  carrier: Carrier,
  sessionId: string,
): Promise<Underway> {
  // The turns that wait are counted first: one that begins between the two questions is found by the second.
  const waitingTurns = await countWaiting(store, sessionId)
  const run = await store.newestOpen(sessionId)
  if (!run) return { run: null, waitingTurns }
  const { id: runId, status, isHeld } = run
  if (status === 'waiting') return { run: null, waiting: { runId }, waitingTurns }
  const recovers = !isHeld || carrier.live.get(runId)?.takenOver === true
  const shown = status === 'running' && recovers ? 'recovering' : status
  return { run: { runId, status: shown }, waitingTurns }
}
