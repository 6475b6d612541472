import { readOutput } from '../core/chat/tool-call.ts'
import type { ToolCall } from '../core/records.ts'

/** A call that nobody carries out any more: one that still ran has failed. */
export const stopped = (call: ToolCall): ToolCall =>
  call.status === 'isRunning' ? { ...call, status: 'error', error: 'It was stopped.' } : call

/** A call with its output read, where there is one. */
export const withResult = (call: ToolCall): ToolCall =>
  call.output === undefined ? call : { ...call, result: readOutput(call.output) }
