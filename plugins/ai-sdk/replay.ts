import { partsOf, type PluginSessions, type TurnPart, type Turns, type User } from '#core'
import { waitingIdOf } from './names.ts'

/** What a replay is read from. */
export interface Replaying {
  readonly user: User
  readonly turns: Turns
  readonly sessions: PluginSessions
}

/** How many runs one answer has at most: each approval and each round of the page's tools begins another. */
const mostRuns = 200

/** The runs of an answer, the first one first: those that a run continues, and itself. */
export async function chainOf({ user, turns }: Replaying, runId: string): Promise<string[]> {
  const chain = [runId]
  while (chain.length < mostRuns) {
    const before = await continued({ user, turns }, chain[0] ?? runId)
    if (before === undefined) break
    chain.unshift(before)
  }
  return chain
}

async function continued(
  { user, turns }: Pick<Replaying, 'user' | 'turns'>,
  runId: string,
): Promise<string | undefined> {
  for await (const { event, data } of turns.events({ user, runId }))
    return event === 'run' ? data.continues : undefined
  return undefined
}

/** An answer from its very beginning, and on as it is made. What the page has answered is answered. */
export async function* replayed(
  from: Replaying,
  session: string,
  chain: readonly string[],
): AsyncGenerator<TurnPart, void, void> {
  const { user, turns } = from
  for (const [i, runId] of chain.entries()) {
    const isLast = i === chain.length - 1
    for await (const part of partsOf(turns.events({ user, runId }))) {
      if (isLast) yield part
      else if (part.type === 'client-calls') yield* answered(from, session, part)
      else if (part.type !== 'end') yield part
    }
  }
}

/** The calls of a page's tools that the page has carried out, with what came of them. */
async function* answered(
  { user, sessions }: Replaying,
  session: string,
  { runId, calls }: Extract<TurnPart, { type: 'client-calls' }>,
): AsyncGenerator<TurnPart, void, void> {
  const { messages } = await sessions.messages({ user, session })
  const known = new Map(messages.flatMap(({ toolCalls }) => toolCalls ?? []).map((call) => [call.id, call]))
  for (const call of calls) {
    const { status, output = '' } = known.get(call.toolCallId) ?? {}
    const toolCallId = waitingIdOf(runId, call.toolCallId)
    yield { type: 'call', ...call, toolCallId }
    const outcome = status === 'error' ? { error: output } : { output }
    yield { type: 'result', toolCallId, toolName: call.toolName, ...outcome }
  }
}
