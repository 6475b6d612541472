import { deed, meaning, mostDescription, mostWords, Stems } from './words.ts'

/** A tool or a plugin, which the model chooses by its words. */
export interface Described {
  readonly name: string
  /** The words that name the tool or plugin: its name and its tags. */
  readonly strong: string
  /** The words that describe the tool or plugin. */
  readonly weak: string
}

/** How well a tool or a plugin fits a question. */
export interface Match<T> {
  readonly of: T
  readonly score: number
  /** How many words of the question are in the name or the tags. */
  readonly named: number
  /** How many words of the question are in the description. */
  readonly described: number
}

interface Read {
  readonly strong: Stems
  readonly weak: Stems
}
const known = new WeakMap<Described, Read>()

/** The stems of a tool or a plugin. They are computed once and kept as long as the object lives. */
function readOnce(of: Described): Read {
  let read = known.get(of)
  if (!read) {
    const weak = new Stems(meaning(of.weak.slice(0, mostDescription)))
    known.set(of, (read = { strong: new Stems(meaning(of.strong)), weak }))
  }
  return read
}

/** The tools or plugins that share a word with a question, the best match first. */
export function matches<T extends Described>(question: string, all: readonly T[]): Match<T>[] {
  const asked = [...new Set(meaning(question))].slice(0, mostWords)
  const read = all.map((of) => ({ of, ...readOnce(of) }))
  const addressed = addressee(question)

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
    // A word that few of the tools use tells more than a word that all of them use.
    const rarity = Math.log(1 + all.length / Math.max(1, known))
    const weight = word === addressed ? 3 * rarity : rarity
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

/** The stem of what a question is put to: the ledger, in "Ask the ledger for the entity". */
function addressee(question: string): string | undefined {
  const [, name = ''] = /\bask\s+(?:the\s+)?(\p{L}{2,40})/iu.exec(question) ?? []
  return meaning(name)[0]
}

/** Raises the score when the name has the verb of the question. Lowers it when the name writes and the question does not ask to. */
function suits(question: string, name: string): number {
  const wanted = deed(question)
  const offered = deed(name)
  if (!offered || !wanted) return 0
  if (wanted === offered) return 1
  return offered === 'read' || offered === 'compute' ? 0 : -1.5
}
