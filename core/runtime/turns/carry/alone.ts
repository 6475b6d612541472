import type { CarriedRun } from './carried-run.ts'

/** How often it is looked whether anybody reads a run. */
const lookMs = { longest: 1_000, shortest: 50 }

/** Stops a run that nobody has read for the time that its request names. Returns the function that ends the looking. */
export function stopWhenAlone(run: CarriedRun): () => void {
  const { whenAlone } = run.request
  if (!whenAlone) return () => undefined
  const { stopAfterMs } = whenAlone
  const look = () => {
    if (run.feed.unreadMs >= stopAfterMs) run.stop('aborted', 'alone')
  }
  const everyMs = Math.min(lookMs.longest, Math.max(lookMs.shortest, stopAfterMs / 4))
  const timer = setInterval(look, everyMs).unref()
  return () => clearInterval(timer)
}
