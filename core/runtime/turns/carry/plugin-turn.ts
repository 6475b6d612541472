import type { Log, TurnEvent, Turns, User } from '../../../plugin.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import type { EventReader } from '../events/reader.ts'
import type { Runs } from './runs.ts'

/** A turn as a plugin starts it. */
export type PluginTurn = Parameters<Turns['start']>[0]

/** What of the app a plugin's turn needs beside the runs. */
export interface PluginTurnOptions {
  readonly rights?: Rights
  readonly log: Log
}

/** Begins a plugin's turn in the session that the plugin names, or in a new one, and reads its events. */
export async function startPluginTurn(
  runs: Runs,
  { rights, log }: PluginTurnOptions,
  { user: given, session, message, requestId: key, signal }: PluginTurn,
): Promise<EventReader> {
  const user = asUser(given, rights)
  await runs.mayTalk(user) // before a session is made
  if (session !== undefined) await runs.sessions.ensure(user.did, session)
  const sessionId = session ?? (await runs.sessions.create(user.did)).sessionId
  const { runId, requestId } = await runs.send({
    user,
    sessionId,
    requestId: key,
    request: { message },
  })
  const stop = () =>
    runs
      .abort(user.did, sessionId, requestId)
      .catch((error: unknown) =>
        log.warn({ err: error, runId }, 'A turn that a plugin stops may go on'),
      )
  if (signal?.aborted) void stop()
  else signal?.addEventListener('abort', stop, { once: true })
  return runs.subscribe(runId)
}

/** A run's events as a plugin reads them. */
export async function* turnEvents(reader: Promise<EventReader>): AsyncGenerator<TurnEvent> {
  for await (const { id, event, data } of await reader)
    if (id !== undefined) yield { seq: id, event, data: JSON.parse(data) }
}

/** A user of whom only the name is known may do what needs no capability, and what the operator granted that DID. */
export function asUser(user: User | { readonly did: string }, rights?: Rights): User {
  if ('can' in user) return user
  const { did } = user
  const can = (ability: string, resource = did) =>
    resource === rights?.oracleDid && rights.granted(did, ability)
  return {
    did,
    can,
    denial: (ability, resource) =>
      can(ability, resource) ? [] : ['No delegation of the user came with this turn.'],
  }
}
