import { folded } from '../screens/gsm7.ts'

/** The most characters of an answer, some sixty screens, so that its row stays small. */
const mostCharacters = 10_000
/** The most characters of an answer before `plain` removes the markup. */
const mostLookedAt = 4 * mostCharacters

/** A Markdown link. Its parts have bounds, because in a text full of brackets every bracket would search to the end of the text. */
const link = /!?\[([^\]\n]{0,300})\]\(([^)\s]{0,1000})\)/g

/** The text of an answer for a phone screen: without markup and pictures, in one paragraph. */
export function plain(text: string): string {
  const bare = text
    .slice(0, mostLookedAt)
    .replace(link, '$1 $2')
    .replace(/^[ \t]*[-+*]\s+/gm, '- ')
    .replace(/[*`#>]+|(?<![\p{L}\p{N}])_+|_+(?![\p{L}\p{N}])/gu, '')
    .replace(/[\p{Emoji_Presentation}\u{1f1e6}-\u{1f1ff}\u200d\ufe0f]/gu, '')
    .replace(/\s+/g, ' ')
    .replace(/\p{Cc}/gu, '')
    .trim()
    .toWellFormed()
  return folded(bare.slice(0, mostCharacters).toWellFormed())
}
