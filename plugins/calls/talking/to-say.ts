import { type FollowedEvent, RuntimeError } from '#core'
import type { ConversationOptions } from './options.ts'

type Wanted = Pick<ConversationOptions, 'turns' | 'call' | 'heardBefore'>

/** What is to be said in a call: the rest of what a call was saying that this one replaces, then every run of the session. */
export async function* toSay(wanted: Wanted, signal: AbortSignal): AsyncGenerator<FollowedEvent> {
  const { turns, call, heardBefore } = wanted
  const user = { did: call.did }
  // Also a run that has ended: its reply may be longer than what could be said of it.
  if (heardBefore) yield* runOf(wanted, heardBefore.runId, signal)
  yield* turns.follow({ user, session: call.sessionId, signal })
}

async function* runOf(
  { turns, call }: Wanted,
  runId: string,
  signal: AbortSignal,
): AsyncGenerator<FollowedEvent> {
  try {
    for await (const event of turns.events({ user: { did: call.did }, runId, signal }))
      yield { ...event, runId, requestId: '' }
  } catch (error) {
    // The run is gone: there is no rest.
    if (!(error instanceof RuntimeError && error.code === 'NOT_FOUND')) throw error
  }
}
