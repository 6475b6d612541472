import { keptList, type Message } from '#core/models'

/** A block of an answer as the provider gave it. */
export interface Block {
  readonly type?: unknown
  readonly id?: unknown
  readonly signature?: unknown
}

type Said = Extract<Message, { role: 'assistant' }>

/** The blocks that the model of this origin gave with a message: the provider wants back all of them. */
export function keptOf(message: Said, origin: string): readonly Block[] | undefined {
  return keptList(message, origin, 'content', isCall)
}

/** Whether a block is a call of a tool. */
export function isCall({ type }: Block): boolean {
  return type === 'tool_use'
}

/** Whether a block is what the model thought: the provider signs it and wants it unchanged. */
export function isThought({ type }: Block): boolean {
  return type === 'thinking' || type === 'redacted_thinking'
}
