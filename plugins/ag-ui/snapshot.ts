import type { SessionCall, SessionMessage } from '#core'
import type { AgMessage } from './request.ts'
import { wordsOf } from './turn.ts'

/** How many messages of a session are compared: a conversation that has more is told by nobody. */
export const mostCompared = 1_000

/**
 * What was said before a run, as messages of the protocol, where the client believes something else; undefined where both agree. The
 * client's own message, which the run answers, is the last of them.
 */
export function correctionOf(
  client: readonly AgMessage[],
  transcript: readonly SessionMessage[],
  ownRunId: string,
): object[] | undefined {
  const at = transcript.findIndex(({ type, run }) => type === 'human' && run?.runId === ownRunId)
  const asked = client.findLastIndex(({ role }) => role === 'user')
  const question = client[asked]
  if (at < 0 || !question) return undefined
  const before = transcript.slice(0, at)
  const ours = unitsOf(before.map(({ type, content }) => [roles[type], content]))
  const theirs = unitsOf(client.slice(0, asked).map((one) => [one.role, wordsOf(one)]))
  if (isSame(ours, theirs)) return undefined
  // By the id of ours: the clients leave a message whose id they know where it stands, which is before all that they did not know.
  return [...before.flatMap(messagesOf), { ...question, id: transcript[at]?.id }]
}

const roles = { human: 'user', ai: 'assistant' } as const

/** What each side said in one go. Spaces do not count, nor how the words of one answer are split. */
function unitsOf(lines: readonly (readonly [role: string, content: string])[]): string[] {
  const units: { readonly role: string; text: string }[] = []
  for (const [role, content] of lines) {
    const text = content.replaceAll(/\s+/gu, '')
    if ((role !== 'user' && role !== 'assistant') || text === '') continue
    const last = units.at(-1)
    if (last?.role === role && role === 'assistant') last.text += text
    else units.push({ role, text })
  }
  return units.map(({ role, text }) => `${role}:${text}`)
}

const isSame = (one: readonly string[], other: readonly string[]) =>
  one.length === other.length && one.every((unit, i) => unit === other[i])

/** A message of the transcript: the words with the calls, the results of these, and what was shown. */
function messagesOf({ id, type, content, toolCalls = [] }: SessionMessage): object[] {
  if (type === 'human') return [{ id, role: 'user', content }]
  const calls = toolCalls.filter(({ isComponent }) => !isComponent)
  const shown = toolCalls.filter(({ isComponent }) => isComponent)
  const said = {
    ...(content && { content }),
    ...(calls.length > 0 && { toolCalls: calls.map(callOf) }),
  }
  return [
    ...(Object.keys(said).length > 0 ? [{ id, role: 'assistant', ...said }] : []),
    ...calls.map(({ id: toolCallId, output = '' }) => ({
      ...{ id: `result-${toolCallId}`, role: 'tool', toolCallId, content: output },
    })),
    ...shown.map(({ id: messageId, name, args }) => ({
      ...{
        id: messageId,
        role: 'activity',
        activityType: `component:${name}`,
        content: { name, args },
      },
    })),
  ]
}

const callOf = ({ id, name, args }: SessionCall) => ({
  ...{ id, type: 'function' },
  function: { name, arguments: JSON.stringify(args) },
})
