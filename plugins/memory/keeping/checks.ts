import { tellsSecret, isSensitive } from '../words/secrets.ts'
import { isSlot, slots } from '../words/slots.ts'
import { contentWords, denies, plain, sameLetters } from '../words/text.ts'

/** Why something is not kept. */
export type Refusal =
  | 'no-evidence'
  | 'quoted'
  | 'invented'
  | 'unreal'
  | 'not-a-fact'
  | 'secret'
  | 'sensitive'
  | 'erased'
  | 'unknown-slot'

/** What a model, or a rule, proposes to keep. */
export interface Proposal {
  readonly quote: string
  readonly text: string
  readonly kind: 'fact' | 'preference' | 'event' | 'plan'
  readonly about: string
  readonly slot?: string
  readonly value?: string
  readonly until?: string
  readonly sensitive?: boolean
  /** The person says that it holds no more. */
  readonly ends?: boolean
}

const pasteLength = 1_500
const lengths = { least: 3, most: 240 }
const orders = new RegExp(
  [
    String.raw`\b(you (must|should|have to|need to|are to)|always (answer|reply|say|call|run|use|approve|send)|`,
    String.raw`never (ask|tell|refuse|mention)|ignore|disregard|system prompt|from now on you|act as|instructions?|`,
    String.raw`lazima (u|ujibu)|usiulize|tu dois|vous devez|reponds toujours|ignorez?)\b`,
  ].join(''),
)
// eslint-disable-next-line no-control-regex
const unprintable = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\u2028\u2029]/u
const mostMarks = 8

/** Whether a sentence can stand as a memory by its form: one line, of a bearable length, that gives the oracle no orders. */
export function isSentence(text: string): boolean {
  const { length } = [...text]
  if (length < lengths.least || length > lengths.most || unprintable.test(text)) return false
  if (!/[\p{L}\p{N}]/u.test(text) || new RegExp(`\\p{M}{${mostMarks},}`, 'u').test(text))
    return false
  return !orders.test(plain(text))
}

/** What is kept without a proposal: by hand, by asking, or from an export. */
interface Given {
  readonly text: string
  readonly about: string
  readonly slot: string | null
  readonly value: string
  readonly quote: string
}

/** Why something is not kept that the person wrote by hand, asked for, or brings from an export. */
export function refusalOfGiven(given: Given, sensitive: 'ask' | 'never'): Refusal | undefined {
  const { text, about, slot, value, quote } = given
  const parts = [text, quote, `${about} ${text}`, `${about} ${value}`]
  if (parts.some((part) => tellsSecret(part))) return 'secret'
  if (!isSentence(text) || !isWho(about) || !isLine(value)) return 'not-a-fact'
  if (slot !== null && !isSlot(slot)) return 'unknown-slot'
  if (sensitive === 'never' && (isAskedOnly(slot) || isSensitive(`${about} ${text} ${value}`)))
    return 'sensitive'
  return undefined
}

const isAskedOnly = (slot: string | null | undefined): boolean =>
  typeof slot === 'string' && slots[slot]?.asked === true
/** Whether a text stands in one line, with nothing in it that cannot be seen. */
const isLine = (text: string): boolean => !unprintable.test(text)
/** Whether a text can name of whom, or of what, a memory tells. */
const isWho = (about: string): boolean => isLine(about) && !orders.test(plain(about))

/** Why a proposal is not kept. `message` is the one it names; `earlier` are the person's own messages before. */
export function refusalOf(
  proposal: Proposal,
  message: string | undefined,
  earlier: readonly string[],
): Refusal | undefined {
  const { quote, text, slot, value = '', about } = proposal
  if (message === undefined || !isEvidence(quote, message)) return 'no-evidence'
  if (isQuoted(quote, message)) return 'quoted'
  if ([text, quote, `${about} ${value}`].some((part) => tellsSecret(part))) return 'secret'
  if (!isSentence(text) || !isWho(about) || !isLine(value)) return 'not-a-fact'
  if (slot !== undefined && !isSlot(slot)) return 'unknown-slot'
  const who = about === 'me' ? '' : about
  const said = [message, ...earlier].map(ownWords)
  if (![text, value, who].every((part) => isTold(part, said))) return 'invented'
  if (isUnreal(proposal, message)) return 'unreal'
  if (proposal.sensitive || isAskedOnly(slot) || isSensitive(`${about} ${text} ${quote}`))
    return 'sensitive'
  return undefined
}

function isEvidence(quote: string, message: string): boolean {
  const words = quote.trim().split(/\s+/)
  return (
    quote.trim().length >= 8 &&
    words.length >= 2 &&
    sameLetters(message).includes(sameLetters(quote))
  )
}

/** Whether a quote stands in a paste, in a fenced block or in a line that quotes others, and nowhere else. */
const isQuoted = (quote: string, message: string): boolean =>
  !sameLetters(ownWords(message)).includes(sameLetters(quote))

/** A message without what the person brings along of others: fenced blocks, lines and speech that quote, and a paste as a whole. */
export function ownWords(message: string): string {
  if (message.length > pasteLength) return ''
  const own: string[] = []
  let isFenced = false
  for (const line of message.split(/\r?\n/)) {
    if (/^\s*(```|~~~)/.test(line)) isFenced = !isFenced
    else if (!isFenced && !/^\s*(>|\||#|<)/.test(line)) own.push(line)
  }
  // What stands in quotation marks, three words or more, somebody else may have said.
  return own.join('\n').replace(/["“«„][^"”»“\n]*\s[^"”»“\n]*\s[^"”»“\n]*["”»“]/g, ' ')
}

/** Whether every number, date and name of a text stands in what the person said. */
function isTold(text: string, said: readonly string[]): boolean {
  const told = plain(said.join(' \n '))
  const words = new Set(told.match(/[\p{L}\p{N}]+/gu) ?? [])
  for (const number of plain(text).match(/\d+/g) ?? []) if (!words.has(number)) return false
  const stems = new Set(contentWords(said.join(' \n ')))
  for (const [i, word] of (text.match(/[\p{L}\p{N}'’-]+/gu) ?? []).entries()) {
    const isName = /^\p{Lu}/u.test(word) && (i > 0 || told.includes(plain(word)))
    if (isName && !told.includes(plain(word))) return false
  }
  // Most words of the text have to be the person's own: a model that adds a fact adds words.
  const own = contentWords(text)
  const known = own.filter((word) => stems.has(word) || common.has(word)).length
  return own.length === 0 || known / own.length >= 0.6
}

/** Words in which a model tells of a person what the person said in the first one. */
const common = new Set(contentWords('user person lives works called named likes prefers has wants'))

const doubtful = new RegExp(
  [
    String.raw`\b(if|imagine|pretend|suppose|let's say|lets say|for example|e\.g\.|role ?play|hypothetically|`,
    String.raw`what if|would be|wish i|in a story|joking|kidding|kama ninge|tuseme|kwa mfano|si |imaginons|`,
    String.raw`par exemple|suppose que|faisons semblant)\b`,
  ].join(''),
)
/** Words that end something without a no. */
const ended = new RegExp(
  [
    String.raw`\b(left|stopped|quit|gave up|sold|lost|died|finished|ended|divorced|retired|moved out|nimeacha|niliacha|`,
    String.raw`nimehama|arrete|quitte|vendu|perdu|divorce)\b`,
  ].join(''),
)

/** What somebody else says of the person, or of themselves: `my friend says I live in …`. */
const reported = new RegExp(
  [
    String.raw`\b(?!i )[a-z']+ (?:says|said|thinks|thought|believes|claims|claimed|wrote|anasema|alisema|`,
    String.raw`dit|pense|croit)(?: that| kwamba| que)?[:,]? ?$`,
  ].join(''),
)

function isUnreal({ quote, text, ends }: Proposal, message: string): boolean {
  const sentence = plain(sentenceAround(quote, message))
  const before = sentence.slice(0, Math.max(0, sentence.indexOf(plain(quote))))
  if (reported.test(before) && !/\bi (?:said|thought)(?: that)?[:,]? ?$/.test(before)) return true
  if (sentence.endsWith('?') || quote.trim().endsWith('?') || doubtful.test(sentence)) return true
  if (/\b(pretend|role ?play|imagine|jifanye|imaginons)\b/.test(plain(message))) return true
  if (ends) return !denies(plain(quote)) && !ended.test(plain(quote))
  return denies(plain(quote)) !== denies(plain(text))
}

/** The sentence of a message in which a quote stands. */
function sentenceAround(quote: string, message: string): string {
  const at = sameLetters(message).indexOf(sameLetters(quote))
  const text = sameLetters(message)
  const before = Math.max(
    ...['. ', '! ', '? ', '\n'].map(
      (end) => text.lastIndexOf(end, at) + (text.lastIndexOf(end, at) >= 0 ? 1 : 0),
    ),
    0,
  )
  const rest = text.slice(at + sameLetters(quote).length)
  const end = rest.search(/[.!?\n]/)
  return text.slice(before, end < 0 ? undefined : at + sameLetters(quote).length + end + 1).trim()
}

/** How much of a sentence stands in the person's own words, from 0 to 1. */
export function support(text: string, said: readonly string[]): number {
  const own = contentWords(text)
  if (own.length === 0) return 0
  const known = new Set(contentWords(said.join(' \n ')))
  return own.filter((word) => known.has(word) || common.has(word)).length / own.length
}
