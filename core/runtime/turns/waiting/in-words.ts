import { createHash } from 'node:crypto'
import type { WaitingCall } from '../run.ts'

/** How much of a call's arguments a person reads in a question. */
const mostOfArguments = 2_000

/** How a question is put in a language. */
interface Wording {
  mayI(tool: string, args: string): string
  /** How to answer: a question is known again by these words and its code. */
  readonly how: string
}

const english: Wording = {
  mayI: (tool, args) => `May I run "${tool}" with ${args}?`,
  how: 'Answer yes or no.',
}
const wordings: ReadonlyMap<string, Wording> = new Map([
  ['en', english],
  [
    'fr',
    { mayI: (tool, args) => `Puis-je exécuter "${tool}" avec ${args} ?`, how: 'Dites oui ou non.' },
  ],
  [
    'sw',
    { mayI: (tool, args) => `Je, nitekeleze "${tool}" kwa ${args}?`, how: 'Jibu ndiyo au hapana.' },
  ],
])

/**
 * The question by which a person is asked in words about a call. The code names the call of this turn and no other.
 * `language` is a BCP 47 tag; where nobody wrote the question in that language it is in English.
 */
export function questionOf(
  rootId: string,
  { toolCallId, toolName, args, question }: WaitingCall,
  language = 'en',
): string {
  const [base = ''] = language.toLowerCase().split('-')
  const { mayI, how } = wordings.get(base) ?? english
  const text = JSON.stringify(args) ?? '{}'
  const shown =
    text.length > mostOfArguments ? `${text.slice(0, mostOfArguments).toWellFormed()}…` : text
  const code = createHash('sha256').update(`${rootId} ${toolCallId}`).digest('hex').slice(0, 8)
  const asked = question === undefined ? '' : `${question} `
  return `${asked}${mayI(toolName, shown)} ${how} [${code}]`
}

const yes = new Set(
  'yes y yeah yep ok okay sure approve ndiyo ndio sawa inde eya ee oui si sí sim ja da'.split(' '),
)
const no = new Set('no n nope reject hapana ayi iyayi non nein nao não nie'.split(' '))

/** What a message decides that is a bare yes or no, with or without the code of the question; undefined for any other message. */
export function bareAnswer(message: string, line: string): 'approve' | 'reject' | undefined {
  if (message.length > 60) return undefined
  const [, words = '', code] = /^\s*(.*?)\s*(?:\[?([0-9a-f]{8})\]?)?\s*$/su.exec(message) ?? []
  if (code !== undefined && code !== questionCode(line)) return undefined
  const word = words.toLowerCase().replace(/[\s.!,;:]+$/u, '')
  if (yes.has(word)) return 'approve'
  return no.has(word) ? 'reject' : undefined
}

const hows = [...wordings.values()].map(({ how }) =>
  how.replace('.', '\\.').replaceAll(' ', '\\s*'),
)
const questionEnd = new RegExp(`(?:${hows.join('|')})\\s*\\[([0-9a-f]{8})\\]\\s*$`, 'u')

/**
 * The code with which a text ends that asks in words, in any language, its spaces kept or not; undefined where it does not
 * ask.
 */
export const questionCode = (text: string): string | undefined => questionEnd.exec(text)?.[1]
