import { createHash } from 'node:crypto'
import type { WaitingCall } from '../run.ts'

/** How much of a call's arguments a person reads in a question. */
const mostOfArguments = 2_000

/** The question by which a person is asked in words about a call. The code names the call of this turn and no other. */
export function questionOf(
  rootId: string,
  { toolCallId, toolName, args, question }: WaitingCall,
): string {
  const text = JSON.stringify(args) ?? '{}'
  const shown =
    text.length > mostOfArguments ? `${text.slice(0, mostOfArguments).toWellFormed()}…` : text
  const code = createHash('sha256').update(`${rootId} ${toolCallId}`).digest('hex').slice(0, 8)
  const asked = question === undefined ? '' : `${question} `
  return `${asked}May I run "${toolName}" with ${shown}? Answer yes or no. [${code}]`
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

/** The code with which a text ends that asks in words; undefined where it does not ask. */
export const questionCode = (text: string): string | undefined =>
  /Answer\s*yes\s*or\s*no\.\s*\[([0-9a-f]{8})\]\s*$/u.exec(text)?.[1]
