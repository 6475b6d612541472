import type { IMessage, ToolCall } from './records.ts'

/** The history as it is shown: calls that nobody carries any more do not go on. */
export function shown(history: readonly IMessage[], open: (callId: string) => boolean): IMessage[] {
  return history.map((message) => {
    const { toolCalls } = message
    if (!toolCalls) return message
    return {
      ...message,
      toolCalls: toolCalls.map((call) => (open(call.id) ? call : stopped(withResult(call)))),
    }
  })
}

/** The new list, in which a message that says the same as before is the same object. */
export function reconciled(
  old: readonly IMessage[],
  fresh: readonly IMessage[],
): readonly IMessage[] {
  return fresh.map((message, i) => {
    const before = old[i]
    return before && sayingOf(before) === sayingOf(message) ? before : message
  })
}

const sayingOf = ({ type, content, toolCalls, reasoning = '', isComplete }: IMessage): string =>
  JSON.stringify([
    type,
    content,
    toolCalls?.map(({ id, status, output }) => [id, status, output]),
    reasoning,
    isComplete,
  ])

/** A call that nobody carries any more. */
export const stopped = (call: ToolCall): ToolCall =>
  call.status === 'isRunning' ? { ...call, status: 'error', error: 'It was stopped.' } : call

/** A call with its output read, where that is JSON. */
export function withResult(call: ToolCall): ToolCall {
  if (call.output === undefined) return call
  try {
    return { ...call, result: JSON.parse(call.output) }
  } catch {
    return { ...call, result: call.output }
  }
}
