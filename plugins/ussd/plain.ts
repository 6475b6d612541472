import { folded } from './gsm7.ts'

/** Some sixty screens: nobody pages further, and a row stays small. */
const mostCharacters = 10_000

/** What the agent wrote, for a screen that shows letters only: no markup, no pictures, one paragraph. */
export function plain(text: string): string {
  const bare = text
    .replace(/!?\[([^\]\n]*)\]\(([^)\s]*)\)/g, '$1 $2')
    .replace(/^\s*[-+*]\s+/gm, '- ')
    .replace(/[*`#>]+|(?<![\p{L}\p{N}])_+|_+(?![\p{L}\p{N}])/gu, '')
    .replace(/[\p{Emoji_Presentation}\u{1f1e6}-\u{1f1ff}\u200d\ufe0f]/gu, '')
    .replace(/\s+/g, ' ')
    .replace(/\p{Cc}/gu, '')
    .trim()
    .toWellFormed()
  return folded(bare.slice(0, mostCharacters).toWellFormed())
}
