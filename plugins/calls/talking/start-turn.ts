import { setTimeout as rest } from 'node:timers/promises'
import { type TakenWords, beginTurn } from './turns-of-call.ts'
import type { ConversationOptions } from './options.ts'
import type { OpenWords, Runs, Told } from './runs.ts'

/** How long to wait with a turn that is the next to begin, before it is asked for again. */
const pauseMs = 20

/** What was said, and what stands before its turn. */
export interface Starting {
  readonly options: ConversationOptions
  readonly runs: Runs
  readonly beginning: OpenWords
  readonly text: string
  /** Resolves once everything that was said before has begun, or has ended where it was interrupted. */
  readonly before: Promise<unknown>
  /** A person was asked when it was said: the turn waits for the decision. */
  readonly isPatient: boolean
  /** The call is over. */
  readonly signal: AbortSignal
  /** Ends a run that the person has spoken over. */
  end(run: Told): Promise<unknown>
}

/**
 * Has what was said become a turn. Resolves once the turn has begun; where the person has spoken over it meanwhile, once it has
 * ended: its words stay, and nothing is said of it.
 */
export async function startTurn(starting: Starting): Promise<void> {
  const { options, runs, beginning, text, before, isPatient, end } = starting
  const { turns, call } = options
  const { requestId } = beginning
  await before
  try {
    // Nothing of it runs yet: it begins as one that was stopped, and no model is asked.
    if (beginning.isCut)
      await turns.abort({ user: { did: call.did }, session: call.sessionId, requestId })
    let begun = await beginTurn(options, text, requestId)
    const { isNew } = begun
    if (begun.runId === undefined && (!isPatient || beginning.isCut))
      begun = await makeRoom(starting, begun)
    // A turn that was there before may be over: it is known by its events alone.
    const run = isNew ? runs.begun(beginning, begun.runId) : undefined
    if (run && beginning.isCut) await end(run)
  } finally {
    runs.begun(beginning)
  }
}

/** Ends what is under way in the session without having been heard of here, so that the turn begins which waits for it. */
async function makeRoom(starting: Starting, queued: TakenWords): Promise<TakenWords> {
  const { options, runs, beginning, text, signal, end } = starting
  const { turns, call } = options
  let begun = queued
  // Who has hung up waits for nothing: the turn begins in the chat when it can.
  while (begun.runId === undefined && !signal.aborted) {
    const open = await turns.open({ user: { did: call.did }, session: call.sessionId })
    if (open.waiting) return begun
    // The same name finds the same turn. As long as that waits, what is under way is another one.
    begun = await beginTurn(options, text, beginning.requestId)
    if (begun.runId !== undefined) return begun
    if (open.run) await end(runs.of(open.run.runId))
    else await rest(pauseMs)
  }
  return begun
}
