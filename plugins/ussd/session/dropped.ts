import { screenName } from './engine.ts'
import type { Metrics } from './metrics.ts'
import type { SessionRows } from './rows.ts'
import type { Session } from './session.ts'

/** How many sessions one query asks for. */
const sessionsInQuery = 200

interface Counting {
  readonly rows: SessionRows
  readonly metrics: Metrics
}

/** Counts expired sessions by their last screen, except those that continued on another replica. */
export async function countDropped(
  { rows, metrics }: Counting,
  expired: readonly Session[],
): Promise<void> {
  for (let at = 0; at < expired.length; at += sessionsInQuery) {
    const slice = expired.slice(at, at + sessionsInQuery)
    const versions = await rows.versions(slice.map(({ id }) => id))
    for (const { id, version, state } of slice)
      if (versions.get(id) === version) metrics.dropped(screenName(state))
  }
}
