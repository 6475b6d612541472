import type { Message, ModelRequest, ToolSpec } from '../../core/plugin.ts'

/** A request with one user message, for tests of the model port. */
export function ask(
  content: string | readonly Message[],
  tools: readonly ToolSpec[] = [],
  signal: AbortSignal = new AbortController().signal,
): ModelRequest {
  const messages: readonly Message[] =
    typeof content === 'string' ? [{ role: 'user', id: 'u1', content }] : content
  return { messages, tools, signal }
}
