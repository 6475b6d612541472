import { type FollowedEvent, RuntimeError } from '#core'
import type { ConversationOptions } from './options.ts'

type Wanted = Pick<ConversationOptions, 'turns' | 'call' | 'log' | 'heardBefore'>

/**
 * What is to be said in a call: every run of the session. In a call that replaces another it begins with the run that was being said
 * there: its reply may be longer than what could be said of it, and others may have followed. It ends with the session, too.
 */
export async function* toSay(wanted: Wanted, signal: AbortSignal): AsyncGenerator<FollowedEvent> {
  const { turns, call, log, heardBefore } = wanted
  const session = { user: { did: call.did }, session: call.sessionId }
  const since = heardBefore && { since: heardBefore.runId }
  try {
    for await (const told of turns.follow({ ...session, ...since, signal }))
      if (told.event !== 'interrupt' || (await isOpen(wanted, told.runId))) yield told
  } catch (error) {
    if (signal.aborted || (error instanceof RuntimeError && error.code === 'NOT_FOUND')) return
    log.warn({ err: error }, 'The session of a call cannot be followed')
  }
}

/** Whether a question still waits for a decision. */
async function isOpen({ turns, call, log }: Wanted, runId: string): Promise<boolean> {
  try {
    const { waiting } = await turns.open({ user: { did: call.did }, session: call.sessionId })
    return waiting?.runId === runId
  } catch (error) {
    log.warn({ err: error }, 'It is not known whether a question of a call is still open')
    return true
  }
}
