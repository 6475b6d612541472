import { asCourtesy } from './loop-time.ts'

/** How long a word and a name may be. Longer ones are no misspelt names, and `didYouMean` compares none of them. */
const mostCharacters = 64
/** How many names one suggestion looks at. */
const mostNames = 500
/** How many names one suggestion compares letter by letter. */
const mostCompared = 50

/**
 * The candidate closest to `word`; undefined when none is close enough. A suggestion is a courtesy: the search leaves out very
 * many or very long names, and callers that want thousands of suggestions at once get none.
 */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > mostCharacters) return undefined
  return asCourtesy(() => closest(word, candidates))
}

function closest(word: string, candidates: Iterable<string>): string | undefined {
  const meant = word.toLowerCase()
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(meant.length / 3)) + 1
  let seen = 0
  let compared = 0
  for (const candidate of candidates) {
    if (++seen > mostNames || compared === mostCompared || bestDistance === 0) break
    if (candidate.length > mostCharacters) continue
    if (Math.abs(candidate.length - meant.length) >= bestDistance) continue
    compared++
    const distance = editDistance(meant, candidate.toLowerCase(), bestDistance)
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

/** The closest candidate as a sentence to append to a hint; empty when no candidate is close. */
export function meant(word: string, candidates: Iterable<string>): string {
  const candidate = didYouMean(word, candidates)
  return candidate === undefined ? '' : `Did you mean "${candidate}"?`
}

/** The closest candidate as a sentence, or where none is close those that there are: the next step after a word that is no name. */
export function knownInstead(word: string, candidates: readonly string[]): string {
  const known = candidates.slice(0, mostCompared).join(', ')
  return meant(word, candidates) || (known ? `There are ${known}.` : 'There is none.')
}

/** How many insertions, deletions, replacements and swaps of neighbours lead from one word to the other; at most `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    let least = i
    for (let j = 1; j <= b.length; j++) {
      const replace = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      let cost = Math.min(replace, last[j]! + 1, row[j - 1]! + 1)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, beforeLast[j - 2]! + 1)
      row.push(cost)
      if (cost < least) least = cost
    }
    // A swap reads the row before the last, so the next row may have a value one below the least of this row.
    if (least > limit) return limit
    ;[beforeLast, last] = [last, row]
  }
  return last[b.length]!
}
