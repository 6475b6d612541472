import type { RunCause } from '../../../plugin.ts'
import type { Stop } from '../journal/tables.ts'
import type { TurnRequest } from '../run.ts'
import type { Feed } from './feed.ts'

/** A run that may end because nobody reads it. */
interface ReadRun {
  readonly request: Pick<TurnRequest, 'whenAlone'>
  readonly feed: Pick<Feed, 'unreadMs'>
  stop(why: Stop, cause: RunCause): void
}

/** How often it is looked whether anybody reads a run. */
const lookMs = { longest: 1_000, shortest: 50 }

/** Stops a run that nobody has read for the time that its request names. Returns the function that ends the looking. */
export function stopWhenAlone(run: ReadRun): () => void {
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
