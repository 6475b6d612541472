import type { OpenTurn, SessionCall, SessionMessage } from '#core'
import { waitingIdOf } from './names.ts'
import { outputOf } from './stream.ts'

/** A message as `useChat` takes it. */
export interface UiMessage {
  readonly id: string
  readonly role: 'user' | 'assistant'
  readonly parts: object[]
  metadata?: object
}

/** A transcript as messages of `useChat`: what the assistant said of one turn is one message. */
export function toUiMessages(
  messages: readonly SessionMessage[],
  sessionId: string,
  waiting: OpenTurn['waiting'],
): UiMessage[] {
  const found: UiMessage[] = []
  let runId: string | undefined
  let answer: UiMessage | undefined
  for (const message of messages) {
    if (message.type === 'human') {
      runId = message.run?.runId
      answer = undefined
      found.push({ id: message.id, role: 'user', parts: [{ type: 'text', text: message.content }] })
      continue
    }
    if (!answer) {
      const { usage } = message.run ?? {}
      const id = runId ?? message.run?.runId ?? message.id
      answer = {
        id,
        role: 'assistant',
        parts: [],
        metadata: { runId: id, sessionId, ...(usage && { usage }) },
      }
      found.push(answer)
    }
    const { reasoning, content, toolCalls } = message
    answer.parts.push({ type: 'step-start' })
    if (reasoning) answer.parts.push({ type: 'reasoning', text: reasoning, state: 'done' })
    if (content) answer.parts.push({ type: 'text', text: content, state: 'done' })
    for (const call of toolCalls ?? []) answer.parts.push(partOf(call, waiting))
  }
  return found
}

function partOf(
  { id, name, args, status, isComponent, output = '' }: SessionCall,
  waiting: OpenTurn['waiting'],
) {
  if (isComponent) return { type: 'data-component', id, data: { name, args } }
  const asked = waiting?.calls.some(({ toolCallId }) => toolCallId === id)
  if (asked && waiting) {
    if (waiting.kind === 'client')
      return { type: `tool-${name}`, toolCallId: id, state: 'input-available', input: args }
    return {
      ...ours(id, name, args),
      state: 'approval-requested',
      approval: { id: waitingIdOf(waiting.runId, id) },
    }
  }
  const part = ours(id, name, args)
  if (status === 'error') return { ...part, state: 'output-error', errorText: output }
  if (status === 'done') return { ...part, state: 'output-available', output: outputOf(output) }
  return { ...part, state: 'input-available' }
}

const ours = (toolCallId: string, toolName: string, input: unknown) => ({
  ...{ type: 'dynamic-tool', toolName, toolCallId, input },
  providerExecuted: true,
})
