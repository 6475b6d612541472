import { asCourtesy } from './loop-time.ts'

/** A longer word is not a misspelt name, and is compared with none. */
const mostCharacters = 64
/** How many names are looked over, and how many of them are compared letter by letter. */
const mostNames = 500
const mostCompared = 50

/**
 * The candidate closest to `word`, when one is close enough to have been meant. A suggestion is a courtesy: very many
 * or very long names are not compared, and requests for thousands of suggestions at once get none.
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

/** Insertions, deletions, replacements and swaps of neighbours; gives up at `limit`. */
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
    // A swap reaches back one row further, and may cost one less than the least of this one.
    if (least > limit) return limit
    ;[beforeLast, last] = [last, row]
  }
  return last[b.length]!
}
