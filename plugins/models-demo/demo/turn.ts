import type { Message } from '#core'
import { unquote } from '#core/models'
import { askedFor } from './render.ts'
import { givesUp } from './speech.ts'

/** A tool call of the model. */
export interface Call {
  readonly name: string
  readonly args: Record<string, unknown>
}

/** What the model knows of the present turn. */
export interface KnownTurn {
  /** The user's message. */
  readonly said: string
  /** Set when the message answers a question of the model. */
  readonly asked?: {
    /** The tool that the question was about. */
    readonly tool: string
    /** The message that led to the question. */
    readonly before: string
    /** The answers to the same question before this message. */
    readonly answers: readonly string[]
  }
  /** The calls of this turn by their ids. */
  readonly calls: ReadonlyMap<string, Call>
  /** The results of this turn's calls. */
  readonly results: readonly Extract<Message, { role: 'tool' }>[]
  /** The newest call of an earlier turn that was no question for plugins. */
  readonly last?: Call
  /** Whether the model has not said anything in this session yet. */
  readonly first: boolean
}

/** How many characters of a message the model reads. What a user asks for stands at the beginning of the message. */
const longest = 4096
/** How many answers to one question the model reads; the newest count. */
const mostAnswers = 8

/** The beginning of a message, with long gaps made short: the patterns of the model search a gap again and again. */
const read = (content: string): string =>
  content.slice(0, longest).replace(/\s{9,}/g, (gap) => gap.slice(0, 8))

/** Reads the present turn, which begins with the last message of the user, from a conversation. */
export function readTurn(messages: readonly Message[]): KnownTurn {
  const at = messages.findLastIndex(({ role }) => role === 'user')
  const said = read(messages[at]?.content ?? '')
  const since = messages.slice(at + 1)
  const before = messages.slice(0, Math.max(0, at))
  const calls = since.flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  )
  return {
    said,
    asked: givesUp(said) ? undefined : questionBefore(before),
    calls: new Map(
      calls.map(({ id, name, args }) => [
        id,
        { name, args: (args ?? {}) as Record<string, unknown> },
      ]),
    ),
    results: since
      .filter((message) => message.role === 'tool')
      .map((message) => ({ ...message, content: unquote(message.content) })),
    last: lastCall(before),
    first: !before.some(({ role, content }) => role === 'assistant' && content !== ''),
  }
}

/** How many messages back the model looks for its last call. */
const mostBack = 40

function lastCall(messages: readonly Message[]): Call | undefined {
  for (const message of messages.slice(-mostBack).toReversed()) {
    if (message.role !== 'assistant') continue
    const call = message.toolCalls?.findLast(({ name }) => !/^(?:list|load)_capabilit/.test(name))
    if (call) return { name: call.name, args: (call.args ?? {}) as Record<string, unknown> }
  }
  return undefined
}

/** The model's question, when the last answer was one, with the messages that it was about. */
function questionBefore(messages: readonly Message[]): KnownTurn['asked'] {
  const spoken = messages.filter(
    ({ role, content }) => role === 'user' || (role === 'assistant' && content !== ''),
  )
  const tool = spoken.at(-1)?.role === 'assistant' ? askedFor(spoken.at(-1)!.content) : undefined
  if (!tool) return undefined
  const about: string[] = []
  for (let nth = spoken.length - 1; nth > 0 && askedFor(spoken[nth]!.content) === tool; nth -= 2)
    about.unshift(read(spoken[nth - 1]!.content))
  const [before = '', ...answers] = about
  return { tool, before, answers: answers.slice(-mostAnswers) }
}

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
