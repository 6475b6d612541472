import type { Message } from '../../plugin.ts'
import type { Summary } from './run.ts'

type Words = Extract<Message, { role: 'user' }>

const prefix = 'summary-'
/** What stands before a summary: it is the user's side of the conversation, and never the system's voice. */
const opening = 'Summary of the conversation so far, written by the assistant: '
/** How much of the user's words a model reads where it cannot read all of them. */
const mostOfWords = 2_000
/** How many of the user's newest messages a summary leaves as they are. */
export const pinnedWords = 3

/** A summary as a model reads it, in place of the messages that it stands for. */
export function summaryMessage(summary: Pick<Summary, 'upTo' | 'text' | 'foreign'>): Words {
  const { upTo, text, foreign: label } = summary
  const said = { role: 'user', id: `${prefix}${upTo}`, content: `${opening}${text}` } as const
  return label === undefined ? said : { ...said, foreign: { label } }
}

/** Whether a message stands for older ones. */
export function isSummary(message: Message): boolean {
  return message.role === 'user' && message.id.startsWith(prefix)
}

/** The text of a message that stands for older ones. */
export function textOfSummary({ content }: Message): string {
  return content.slice(opening.length)
}

/** Whether a message is what a user, or a plugin, has asked. */
export function isWords(message: Message): message is Words {
  return message.role === 'user' && !isSummary(message)
}

/** The beginning of a user's words, where they are long. */
export function cutWords(message: Words): Words {
  const { parts: _, ...words } = message
  if (message.content.length <= mostOfWords) return message.parts ? words : message
  return { ...words, content: `${message.content.slice(0, mostOfWords).toWellFormed()} [cut]` }
}
