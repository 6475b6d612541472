import { folded } from '../screens/gsm7.ts'

/** Some sixty screens: nobody pages further, and a row stays small. */
const mostCharacters = 10_000
/** Markup takes room that does not count, but not without end. */
const mostLookedAt = 4 * mostCharacters

/** Bounded inside: of a text that is all brackets each would look for its end as far as the text goes. */
const link = /!?\[([^\]\n]{0,300})\]\(([^)\s]{0,1000})\)/g

/** What the agent wrote, for a screen that shows letters only: no markup, no pictures, one paragraph. */
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
