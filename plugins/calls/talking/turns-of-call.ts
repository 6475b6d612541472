import type { Turns } from '#core'
import type { Heard } from './speaker.ts'
import type { ConversationOptions } from './options.ts'

/** What is known of a turn once it has begun, or waits. */
export type TakenWords = Awaited<ReturnType<Turns['start']>['begun']>

/** The name of the turn that something said becomes: known before there is a run. */
export const turnNameOf = ({ call }: Pick<ConversationOptions, 'call'>, name: string): string =>
  `${call.id}:${name}`.slice(0, 200)

/** What was said in a call becomes a turn of its session. Resolves once the turn has begun; its events are followed. */
export async function beginTurn(
  { turns, call, hearingName }: ConversationOptions,
  message: string,
  requestId: string,
): Promise<TakenWords> {
  const { id, did, sessionId, type, language } = call
  const turn = turns.start({
    user: { did },
    delegation: 'stored',
    session: sessionId,
    message,
    metadata: { call: { id, type, by: hearingName, ...(language && { language }) } },
    approvals: 'events',
    requestId,
  })
  turn.ended.catch(() => undefined)
  return turn.begun
}

/** Ends replies where the person stopped listening. A tool that writes comes to its end first. */
export async function cutReplies(
  { turns, call, log }: ConversationOptions,
  runs: readonly { readonly id: string }[],
  heard: Heard | undefined,
): Promise<void> {
  const where = { user: { did: call.did }, session: call.sessionId, finishWrites: true }
  const cutting = runs.map(({ id }) =>
    turns.cut({ ...where, runId: id, chars: heard?.runId === id ? heard.chars : 0 }),
  )
  for (const one of await Promise.allSettled(cutting))
    if (one.status === 'rejected')
      log.warn({ err: one.reason }, 'A reply that was interrupted could not be cut')
}

/** Refuses what a run asks for. */
export function refuse({ turns, call, log }: ConversationOptions, runId: string): void {
  const turn = turns.resume({ user: { did: call.did }, runId, decision: 'reject' })
  turn.ended.catch(() => undefined)
  turn.begun.catch((error: unknown) =>
    log.info({ err: error }, 'A refusal in a call came too late'),
  )
}
