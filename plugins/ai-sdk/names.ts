import { createHash } from 'node:crypto'

const sha = (text: string) => createHash('sha256').update(text).digest('hex')

/** The name of a turn: sent again, the same message of a chat finds it. */
export const requestIdOf = (...of: readonly unknown[]): string =>
  `ai-sdk:${sha(JSON.stringify(of)).slice(0, 40)}`

/** The id of an approval: it names the run that waits, so that the answer finds it. */
export const waitingIdOf = (runId: string, toolCallId: string): string => `${runId}:${toolCallId}`

/** The run and the call of such an id; undefined where it is none of ours. */
export function waitingOf(
  id: string,
): { readonly runId: string; readonly toolCallId: string } | undefined {
  const found = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(.+)$/su.exec(id)
  const [, runId, toolCallId] = found ?? []
  return runId === undefined || toolCallId === undefined ? undefined : { runId, toolCallId }
}
