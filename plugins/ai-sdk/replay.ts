import { partsOf, type TurnPart, type Turns, type User } from '#core'

/** What a replay is read from. */
export interface Replaying {
  readonly user: User
  readonly turns: Turns
  /** Fires when the page has left. */
  readonly signal: AbortSignal
}

/** How many runs one answer has at most: each approval and each round of the page's tools begins another. */
const mostRuns = 200

/** The runs of an answer, the first one first: those that a run continues, and itself. */
export async function chainOf(from: Replaying, runId: string): Promise<string[]> {
  const chain = [runId]
  while (chain.length < mostRuns) {
    const before = await continued(from, chain[0] ?? runId)
    if (before === undefined) break
    chain.unshift(before)
  }
  return chain
}

async function continued(
  { user, turns, signal }: Replaying,
  runId: string,
): Promise<string | undefined> {
  for await (const { event, data } of turns.events({ user, runId, signal }))
    return event === 'run' ? data.continues : undefined
  return undefined
}

/** An answer from its very beginning, and on as it is made. What the page has carried out it does not carry out again. */
export async function* replayed(
  { user, turns, signal }: Replaying,
  chain: readonly string[],
): AsyncGenerator<TurnPart, void, void> {
  for (const [i, runId] of chain.entries()) {
    const isLast = i === chain.length - 1
    for await (const part of partsOf(turns.events({ user, runId, signal }))) {
      if (isLast) yield part
      else if (part.type === 'client-calls')
        for (const call of part.calls) yield { type: 'call', ...call }
      else if (part.type !== 'end') yield part
    }
  }
}
