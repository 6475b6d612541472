import type { IMessage } from 'oracle-runtime-client'

/** What stands beside answers is shown below the newest ones. */
const mostAnswers = 10

/** The last message of each answer, with its run; of the newest answer the run may stand in no message yet. */
export function answersOf(
  messages: readonly IMessage[],
  newest: string | null,
): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  let runId: string | undefined
  for (const [i, { id, type, run }] of messages.entries()) {
    if (type === 'human') runId = run?.runId
    const next = messages[i + 1]
    if (type !== 'ai' || next?.type === 'ai') continue
    const own = run?.runId ?? runId ?? (next ? undefined : (newest ?? undefined))
    if (own !== undefined) found.set(id, own)
  }
  return new Map([...found].slice(-mostAnswers))
}
