import { createHash } from 'node:crypto'

const sha = (text: string) => createHash('sha256').update(text).digest('hex')

/** The headers by which clients name a conversation, the first that is there counts. */
export const sessionHeaders = ['x-session-id', 'x-conversation-id', 'x-openwebui-chat-id'] as const

/** The session of a user that a client names. The client's name may be anything, so the id is made of it and of the user. */
export const sessionIdOf = (did: string, name: string): string =>
  `openai-${sha(`${did}\n${name}`).slice(0, 40)}`

/** The name of a turn, made of the client's Idempotency-Key; those after the first stand in for turns that failed at once. */
export const requestIdOf = (key: string, nth = 1): string =>
  `openai-api:${sha(key).slice(0, 40)}${nth > 1 ? `:${nth}` : ''}`

/** The name of what a client hands in: the same results of the same calls are handed in once. */
export const resultsIdOf = (runId: string, results: unknown): string =>
  `openai-api:${sha(`${runId}\n${JSON.stringify(results)}`).slice(0, 40)}`

/** The id of a client's call as the client is told it. It names the run that waits, so that the results find it. */
export const callIdOf = (runId: string, toolCallId: string): string =>
  `call_${runId.replaceAll('-', '')}_${toolCallId}`

/** The run and the call of an id; undefined where it is none of ours. */
export function runOfCall(
  id: string,
): { readonly runId: string; readonly toolCallId: string } | undefined {
  const found =
    /^call_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_(.+)$/su.exec(id)
  if (!found) return undefined
  const [, a, b, c, d, e, toolCallId = ''] = found
  return { runId: [a, b, c, d, e].join('-'), toolCallId }
}

/** The id of an answer. */
export const completionIdOf = (runId: string): string => `chatcmpl-${runId}`
