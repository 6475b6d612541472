import { keptList, type Message } from '#core/models'

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

type Said = Extract<Message, { role: 'assistant' }>

/** The parts that the model of this origin gave with a message: the provider wants back all of them, as they are signed. */
export function keptOf(message: Said, origin: string): readonly Part[] | undefined {
  return keptList(message, origin, 'parts', isCall)
}

/** What the maker documents in the place of a signature, for a call that has none of its own. */
export const noSignature = 'skip_thought_signature_validator'

/** Whether a part is a call of a tool. */
export function isCall({ functionCall }: Part): boolean {
  return functionCall !== undefined && functionCall !== null
}
