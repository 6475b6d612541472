import type { AskedSummary } from '#core/models'

/** How much of a sentence stands in a summary. */
const longestSentence = 200
/** What stands before the turns, so that an earlier summary is told from them. */
const opening = 'The user said:'

/** Summarises a conversation by the first sentence of each turn; where there are too many, the newest stay. */
export function summaryOf({ lines, words }: AskedSummary): string {
  const sentences = lines.flatMap(({ by, text }): string[] => {
    if (by === 'earlier') return earlierSentences(text)
    return by === 'user' ? [firstSentence(text)] : []
  })
  let left = words - opening.split(' ').length
  const kept: string[] = []
  for (const sentence of sentences.reverse()) {
    left -= sentence.split(/\s+/).length
    if (left < 0) break
    kept.unshift(`- ${sentence}`)
  }
  return [opening, ...kept].join('\n')
}

const earlierSentences = (text: string): string[] =>
  text.split('\n').flatMap((line) => (line.startsWith('- ') ? [line.slice(2)] : []))

function firstSentence(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  const end = /[.!?](?=\s|$)/.exec(line)
  const sentence = end ? line.slice(0, end.index + 1) : line
  return sentence.length <= longestSentence
    ? sentence
    : `${sentence.slice(0, longestSentence).toWellFormed()}…`
}
