import type { Message } from '../../../plugin.ts'
import type { PromptPart } from './prompt.ts'

/** How many characters of one message are told. */
const mostTold = 16 * 1024

/** A tool that a model would be offered. */
export interface ToolPart {
  readonly part: 'tool'
  readonly name: string
  readonly plugin?: string
  readonly bytes: number
}

/** One part of what a model would be sent next. */
export type NextPart = { readonly bytes: number } & (
  | PromptPart
  | ToolPart
  | { readonly part: 'message'; readonly role: string; readonly text: string; readonly cut?: true }
)

/** What a model would be sent next. */
export interface NextPrompt {
  readonly model: string
  /** The bytes of all parts together. */
  readonly bytes: number
  readonly parts: readonly NextPart[]
}

/** Puts the parts of the next prompt together, each with its bytes. */
export function nextPrompt(sent: {
  readonly model: string
  readonly parts: readonly PromptPart[]
  readonly tools: readonly ToolPart[]
  readonly messages: readonly Message[]
}): NextPrompt {
  const parts: NextPart[] = [
    ...sent.parts.map((part) => ({ ...part, bytes: Buffer.byteLength(part.text) })),
    ...sent.tools,
    ...sent.messages.map(toldMessage),
  ]
  return { model: sent.model, bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0), parts }
}

function toldMessage(message: Message): NextPart {
  const { role, content } = message
  const calls = 'toolCalls' in message ? message.toolCalls : undefined
  const text = calls ? `${content}${JSON.stringify(calls)}` : content
  const isCut = text.length > mostTold
  return {
    part: 'message',
    role,
    text: isCut ? text.slice(0, mostTold).toWellFormed() : text,
    ...(isCut && { cut: true as const }),
    bytes: Buffer.byteLength(text),
  }
}
