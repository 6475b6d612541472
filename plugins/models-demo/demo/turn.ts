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
    first: !before.some(({ role, content }) => role === 'assistant' && content !== ''),
  }
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
