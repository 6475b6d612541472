import { deed, meaning, mostDescription, mostWords, Stems } from './words.ts'

/** Something that can be chosen by what it says about itself. */
export interface Described {
  readonly name: string
  /** Words that name it: its name, its tags. */
  readonly strong: string
  /** Words that describe it. */
  readonly weak: string
}

/** How well something answers to a question. */
export interface Match<T> {
  readonly of: T
  readonly score: number
  /** How many words of the question are in its name or tags, and in its description. */
  readonly named: number
  readonly described: number
}

interface Read {
  readonly strong: Stems
  readonly weak: Stems
}
const known = new WeakMap<Described, Read>()

/** What something says about itself, taken apart once however often it is asked about. */
function readOnce(of: Described): Read {
  let read = known.get(of)
  if (!read) {
    const weak = new Stems(meaning(of.weak.slice(0, mostDescription)))
    known.set(of, (read = { strong: new Stems(meaning(of.strong)), weak }))
  }
  return read
}

/** What fits a question, best first; what shares no word with it is left out. */
export function matches<T extends Described>(question: string, all: readonly T[]): Match<T>[] {
  const asked = [...new Set(meaning(question))].slice(0, mostWords)
  const read = all.map((of) => ({ of, ...readOnce(of) }))

  const found = read.map(({ of }): { of: T; score: number; named: number; described: number } => ({
    of,
    score: 0,
    named: 0,
    described: 0,
  }))
  for (const word of asked) {
    const hits = read.map(({ strong, weak }) => ({
      named: strong.likeness(word),
      described: weak.likeness(word),
    }))
    const known = hits.filter((hit) => hit.named || hit.described).length
    // A word that few of them know says more than one that all of them use.
    const weight = Math.log(1 + all.length / Math.max(1, known))
    for (const [nth, hit] of hits.entries()) {
      const match = found[nth]!
      match.score += weight * Math.max(3 * hit.named, hit.described)
      if (hit.named) match.named++
      if (hit.described) match.described++
    }
  }
  return found
    .filter((match) => match.score > 0)
    .map((match) => ({ ...match, score: match.score + suits(question, match.of.name) }))
    .sort((a, b) => b.score - a.score)
}

/** To read is harmless; to write, change, remove or send takes a word that asks for it. */
function suits(question: string, name: string): number {
  const wanted = deed(question)
  const offered = deed(name)
  if (!offered || !wanted) return 0
  if (wanted === offered) return 1
  return offered === 'read' || offered === 'compute' ? 0 : -1.5
}
