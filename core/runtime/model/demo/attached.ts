import type { Message } from '../../../plugin.ts'

/** A text file in a message, between its marks. */
const textFile = /\n\n\[quoted (\w+): file ("(?:[^"\\\n]|\\.)*")\]\n[\s\S]*?\n\[end \1\]/g
/** What is attached and only described, as the runtime lists it. */
const list = /\n\n\[Attached to this message; [^\n]*:\n((?:- [^\n]*\n?)*)\]/
const named = /^- ("(?:[^"\\]|\\.)*")/gm

/** How many names the model says. */
const mostNames = 5

/** A conversation without what is attached in it, and the sentence about what came with its newest message. */
export interface Unattached {
  readonly messages: readonly Message[]
  readonly sentence: string | undefined
}

/** Takes what is attached out of a conversation: the rules read the user's own words, and look into no file. */
export function withoutAttached(messages: readonly Message[]): Unattached {
  const newest = messages.findLast(({ role }) => role === 'user')
  const names = newest ? namesIn(newest) : []
  return {
    messages: messages.some(hasAttached) ? messages.map(ownWords) : messages,
    sentence: names.length > 0 ? sentenceOf(names) : undefined,
  }
}

const hasAttached = ({ role, content }: Message) =>
  role === 'user' && (content.includes('\n\n[quoted ') || content.includes('\n\n[Attached to '))

function ownWords(message: Message): Message {
  if (!hasAttached(message)) return message
  return { ...message, content: message.content.replace(textFile, '').replace(list, '') }
}

function namesIn(message: Message): string[] {
  if (message.role !== 'user') return []
  const ofParts = (message.parts ?? []).map(({ name, type }) => JSON.stringify(name ?? type))
  const ofTexts = [...message.content.matchAll(textFile)].map(([, , name = '']) => name)
  const listed = list.exec(message.content)?.[1] ?? ''
  const described = [...listed.matchAll(named)].map(([, name = '']) => name)
  return [...ofParts, ...ofTexts, ...described]
}

function sentenceOf(names: readonly string[]): string {
  const more = names.length - mostNames
  const shown = names.slice(0, mostNames).join(', ') + (more > 0 ? ` and ${more} more` : '')
  return `You attached ${shown}. I am the demonstration model, and look into no file.`
}
