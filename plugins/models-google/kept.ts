import type { Message } from '#core/models'

/** A part of an answer as the provider gave it. */
export interface Part {
  readonly text?: unknown
  readonly thought?: unknown
  readonly thoughtSignature?: unknown
  readonly functionCall?: {
    readonly id?: unknown
    readonly name?: unknown
    readonly args?: unknown
  } | null
}

/** What the provider wants back with an answer: its parts, with their signatures. */
export interface Kept {
  readonly parts: readonly Part[]
}

type Said = Extract<Message, { role: 'assistant' }>

/** The parts that the model of this origin gave with a message; undefined for a message of another model. */
export function keptOf({ provider, toolCalls = [] }: Said, origin: string): Kept | undefined {
  const data = provider?.by === origin ? provider.data : undefined
  if (typeof data !== 'object' || data === null || !('parts' in data)) return undefined
  if (!Array.isArray(data.parts) || data.parts.length === 0) return undefined
  const parts = data.parts as readonly Part[]
  // A message whose calls were changed does not fit its parts any more.
  return parts.filter(isCall).length === toolCalls.length ? { parts } : undefined
}

/** Whether a part is a call of a tool. */
export function isCall({ functionCall }: Part): boolean {
  return functionCall !== undefined && functionCall !== null
}
