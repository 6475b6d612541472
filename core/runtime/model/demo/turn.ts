import type { Message } from '../../../plugin.ts'
import { unquote } from '../../base/quote.ts'
import { askedFor } from './render.ts'
import { givesUp } from './speech.ts'

/** A tool call that the model has made. */
export interface Call {
  readonly name: string
  readonly args: Record<string, unknown>
}

/** What the model knows of the turn that it is in. */
export interface KnownTurn {
  readonly said: string
  /** Set when this message answers our question: what was asked for before it. */
  readonly asked?: {
    readonly tool: string
    readonly before: string
    readonly answers: readonly string[]
  }
  readonly calls: ReadonlyMap<string, Call>
  readonly results: readonly Extract<Message, { role: 'tool' }>[]
  /** Nothing was said in this session yet. */
  readonly first: boolean
}

/** Characters of a message that are read: what is looked for stands at its beginning. */
const longest = 4096
/** Answers to one question, over and over, of which the newest are read. */
const mostAnswers = 8

/** The beginning of a message. A long gap says nothing more than a short one, and is looked through again and again. */
const read = (content: string): string =>
  content.slice(0, longest).replace(/\s{9,}/g, (gap) => gap.slice(0, 8))

/** Reads a conversation from its last message of the user on. */
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

/** Our own question, when it was the last thing said, and the messages that it was about. */
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
