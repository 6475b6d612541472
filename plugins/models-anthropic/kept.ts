import type { Message } from '#core/models'

/** A block of an answer as the provider gave it. */
export interface Block {
  readonly type?: unknown
  readonly id?: unknown
  readonly signature?: unknown
}

/** What the provider wants back with an answer: its whole content. */
export interface Kept {
  readonly content: readonly Block[]
}

type Said = Extract<Message, { role: 'assistant' }>

/** The blocks that the model of this origin gave with a message; undefined for a message of another model. */
export function keptOf({ provider, toolCalls = [] }: Said, origin: string): Kept | undefined {
  const data = provider?.by === origin ? provider.data : undefined
  if (typeof data !== 'object' || data === null || !('content' in data)) return undefined
  if (!Array.isArray(data.content) || data.content.length === 0) return undefined
  const content = data.content as readonly Block[]
  // A message whose calls were changed does not fit its blocks any more.
  return content.filter(isCall).length === toolCalls.length ? { content } : undefined
}

/** Whether a block is a call of a tool. */
export function isCall({ type }: Block): boolean {
  return type === 'tool_use'
}

/** Whether a block is what the model thought: the provider signs it and wants it unchanged. */
export function isThought({ type }: Block): boolean {
  return type === 'thinking' || type === 'redacted_thinking'
}
