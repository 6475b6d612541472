import { createHash } from 'node:crypto'

/** A word of a text: as it is compared, and where it stands. */
interface FoundWord {
  readonly folded: string
  readonly from: number
  readonly to: number
}

/** How much of one message is searched, and how long a word is compared. */
const longestText = 64 * 1024
const longestWord = 40

/** A letter of a script that leaves no spaces between words stands for a word. */
const alone =
  '\\p{Script=Han}|\\p{Script=Hiragana}|\\p{Script=Katakana}|\\p{Script=Thai}|\\p{Script=Lao}|\\p{Script=Khmer}'
const words = new RegExp(
  `(?:${alone})\\p{M}*|(?:(?!${alone})[\\p{L}\\p{N}])(?:(?!${alone})[\\p{L}\\p{N}\\p{M}])*`,
  'gu',
)
const plain = /^[a-z0-9]*$/

/** The words of a text in their order, without accents and case. */
function* wordsOf(text: string): Generator<FoundWord> {
  for (const { 0: word, index } of text.slice(0, longestText).matchAll(words)) {
    const folded = fold(word)
    if (folded !== '') yield { folded, from: index, to: index + word.length }
  }
}

/** A word without accents and case. */
function fold(word: string): string {
  const lower = word.toLowerCase()
  const bare = plain.test(lower) ? lower : lower.normalize('NFKD').replace(/[^\p{L}\p{N}]/gu, '')
  return bare.slice(0, longestWord).toWellFormed()
}

/** The different words of what somebody looks for. */
export const wishedWords = (q: string): string[] => [
  ...new Set([...wordsOf(q)].map(({ folded }) => folded)),
]

/** Whether a text has every word, or one that begins with it. */
export function hasAll(text: string, wanted: readonly string[]): boolean {
  const open = new Set(wanted)
  for (const { folded } of wordsOf(text)) {
    for (const word of open) if (folded.startsWith(word)) open.delete(word)
    if (open.size === 0) return true
  }
  return open.size === 0
}

/** What stands before each word of a user in the index: a question meets the words of nobody else. */
const ownerOf = (did: string): string => createHash('sha256').update(did).digest('hex').slice(0, 12)

/** The words of a message as the index keeps them. */
export function indexed(did: string, text: string): string {
  const owner = ownerOf(did)
  return [...new Set([...wordsOf(text)].map(({ folded }) => owner + folded))].join(' ')
}

/** A question to the index of SQLite: each of the words, or one that begins with it. */
export const askSqlite = (did: string, wanted: readonly string[]): string =>
  wanted.map((word) => `"${ownerOf(did)}${word}" *`).join(' AND ')

/** The same question to SQLite without an index: patterns that the words, with a space before each, all fit. */
export const likeSqlite = (did: string, wanted: readonly string[]): string[] =>
  wanted.map((word) => `% ${ownerOf(did)}${word}%`)

/** The same question to PostgreSQL. A word has letters and digits alone, so nothing in it needs an escape. */
export const askPostgres = (did: string, wanted: readonly string[]): string =>
  wanted.map((word) => `'${ownerOf(did)}${word}':*`).join(' & ')

/** A piece of a message, and where the words stand in it. */
export interface Snippet {
  readonly snippet: string
  readonly marks: readonly (readonly [from: number, to: number])[]
}

/** How many characters of a message stand before the first word, and behind it. */
const around = { before: 50, behind: 110 }

/** The piece of a text around the first place that has one of the words. */
export function snippetOf(text: string, wanted: readonly string[]): Snippet {
  const found = [...wordsOf(text)].filter(({ folded }) =>
    wanted.some((word) => folded.startsWith(word)),
  )
  const at = found[0]?.from ?? 0
  const from = whole(text, Math.max(0, at - around.before))
  const to = whole(text, Math.min(text.length, at + around.behind))
  const lead = from > 0 ? '…' : ''
  return {
    snippet: lead + text.slice(from, to).replace(/\s/g, ' ') + (to < text.length ? '…' : ''),
    marks: found
      .filter((word) => word.to <= to)
      .map((word) => [word.from - from + lead.length, word.to - from + lead.length]),
  }
}

/** A place that is not in the middle of a character. */
function whole(text: string, at: number): number {
  const code = text.charCodeAt(at)
  return at > 0 && code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}
