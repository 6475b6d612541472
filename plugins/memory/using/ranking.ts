import { holdsAt, isSingle, type Memory } from '../kept/memory.ts'
import { wordsOfSlot } from '../words/slots.ts'
import { contentWords } from '../words/text.ts'
import { type AskedVector, cosine, filledPlaces, lengthOf, type StoredVector } from './vectors.ts'

/** A memory with its words, prepared for ranking. */
interface Entry {
  readonly memory: Memory
  readonly words: ReadonlyMap<string, number>
  readonly length: number
  /** By how much a longer sentence counts less. */
  weight: number
}

const dayMs = 86_400_000
const halfLife = { passing: 90 * dayMs, fact: 730 * dayMs }
const fusion = 60
/** About what the index of a memory takes beside its vector, as measured: the row, its words, and where they are found. */
const [bytesPerMemory, bytesPerLetter] = [1_300, 8]
/** What a vector takes beside its places. */
const bytesPerVector = 900
const [k1, b] = [1.2, 0.75]

/** How near a memory is to a question by vectors alone, at least, and by how many deviations it stands out of the others. */
const [leastNear, leastDeviations] = [0.25, 3]
/** How many memories come by vectors alone. */
const mostNear = 20

/** The memories of one owner, ready to be asked. Built once, and dropped when the owner's version has moved. */
export class Index {
  readonly version: number
  readonly memories: readonly Memory[]
  /** About how many bytes the index takes. */
  readonly size: number
  readonly #entries: readonly Entry[]
  readonly #vectors: ReadonlyMap<string, StoredVector>
  /** The entries that have a word; those of a slot; and the words by their first letter. */
  readonly #having = new Map<string, Entry[]>()
  readonly #inSlot = new Map<string, Entry[]>()
  readonly #beginning = new Map<string, string[]>()

  constructor(
    version: number,
    memories: readonly Memory[],
    vectors: ReadonlyMap<string, StoredVector> = new Map(),
  ) {
    this.version = version
    this.memories = memories
    this.#vectors = vectors
    this.#entries = memories.map(entryOf)
    const lengths = this.#entries.reduce((sum, { length }) => sum + length, 0)
    const meanLength = lengths / Math.max(1, this.#entries.length)
    for (const entry of this.#entries) {
      entry.weight = 1 - b + (b * entry.length) / Math.max(1, meanLength)
      for (const word of entry.words.keys()) added(this.#having, word, entry)
      if (entry.memory.slot !== null) added(this.#inSlot, entry.memory.slot, entry)
    }
    for (const word of this.#having.keys()) added(this.#beginning, word[0] ?? '', word)
    const words = memories.reduce((sum, { text, value }) => sum + text.length + value.length, 0)
    const places = [...vectors.values()].reduce(
      (sum, one) => sum + one.places.length + bytesPerVector,
      0,
    )
    this.size = bytesPerMemory * memories.length + bytesPerLetter * words + places
  }

  /** What always comes first: what is pinned, and what fills a slot of one value, in an order that does not change. */
  standing(at: number): Memory[] {
    return this.memories
      .filter((one) => holdsAt(one, at) && (one.pinned || isSingle(one)))
      .sort((one, other) => Number(other.pinned) - Number(one.pinned) || one.n - other.n)
  }

  /** The memories that have no vector of a model yet. */
  lacking(model: string): Memory[] {
    return this.memories.filter(({ id }) => this.#vectors.get(id)?.model !== model)
  }

  /** The memories that share something with a question, the best first; with `history` those that ended too. */
  find(question: string, at: number, history = false, vector?: AskedVector): Memory[] {
    const asked = this.#asked(question)
    if (asked.size === 0 && !vector) return []
    const isMeant = ({ memory }: Entry) => history || holdsAt(memory, at)
    const byWords = [...this.#scores(asked)]
      .filter(([entry]) => isMeant(entry))
      .sort(([one, a], [other, c]) => c - a || one.memory.n - other.memory.n)
      .map(([{ memory }]) => memory)
    const byMeaning = vector ? this.#near(vector, this.#entries.filter(isMeant)) : []
    const byTime = [...new Set([...byWords, ...byMeaning])].sort(
      (one, other) => other.confirmed_at - one.confirmed_at,
    )
    const rank = new Map<Memory, number>()
    for (const [list, weight] of [
      [byWords, 2],
      [byMeaning, 0.5],
      [byTime, 0.25],
    ] as const)
      for (const [i, memory] of list.entries())
        rank.set(memory, (rank.get(memory) ?? 0) + weight / (fusion + i))
    return [...rank]
      .map(([memory, score]) => ({ memory, score: score * freshness(memory, at) }))
      .sort((one, other) => other.score - one.score || one.memory.n - other.memory.n)
      .map(({ memory }) => memory)
  }

  /** The memories that stand out of all others by their nearness to a question. */
  #near({ model, places }: AskedVector, found: readonly Entry[]): Memory[] {
    const length = lengthOf(places) || 1
    const filled = filledPlaces(places)
    const near = found.flatMap(({ memory }) => {
      const stored = this.#vectors.get(memory.id)
      return stored?.model === model
        ? [{ memory, score: cosine(places, stored, filled) / length }]
        : []
    })
    const mean = near.reduce((sum, { score }) => sum + score, 0) / Math.max(1, near.length)
    const spread = near.reduce((sum, { score }) => sum + (score - mean) ** 2, 0)
    const deviation = Math.sqrt(spread / Math.max(1, near.length))
    // Among a handful nothing stands out: their nearness alone counts then.
    const least =
      near.length < 20 ? leastNear : Math.max(leastNear, mean + leastDeviations * deviation)
    return near
      .filter(({ score }) => score >= least)
      .sort((one, other) => other.score - one.score)
      .slice(0, mostNear)
      .map(({ memory }) => memory)
  }

  /** The words of a question; of those that no memory has, the words that are written nearly so. */
  #asked(question: string): ReadonlyMap<string, readonly string[]> {
    const asked = new Map<string, readonly string[]>()
    for (const word of contentWords(question)) {
      if (asked.has(word)) continue
      const isKnown = this.#having.has(word) || word.length < shortestMisspelt
      const alike = isKnown ? [] : (this.#beginning.get(word[0] ?? '') ?? [])
      asked.set(
        word,
        alike.filter((known) => isMisspelt(known, word)),
      )
    }
    return asked
  }

  /** The entries that share a word with a question, or fill what it asks for, and how much. */
  #scores(asked: ReadonlyMap<string, readonly string[]>): ReadonlyMap<Entry, number> {
    const scores = new Map<Entry, number>()
    const add = (entry: Entry, score: number) => scores.set(entry, (scores.get(entry) ?? 0) + score)
    for (const [word, nearly] of asked) {
      const having = this.#having.get(word) ?? []
      const share = having.length / Math.max(1, this.#entries.length)
      const rarity = Math.log(1 + 1 / Math.max(share, 1e-4))
      const found = new Set(having)
      for (const entry of having) {
        const times = entry.words.get(word) ?? 0
        add(entry, (rarity * times * (k1 + 1)) / (times + k1 * entry.weight))
      }
      for (const [slot, entries] of this.#inSlot) {
        const score = slotScore(wordsOfSlot(slot), word, having.length === 0)
        if (score === 0) continue
        for (const entry of entries)
          if (!found.has(entry)) {
            found.add(entry)
            add(entry, score)
          }
      }
      for (const known of nearly)
        for (const entry of this.#having.get(known) ?? [])
          if (!found.has(entry)) {
            found.add(entry)
            add(entry, rarity * 0.6)
          }
    }
    return scores
  }
}

/** What a word that asks for a slot counts: nearly written so, where no memory has the word itself, it counts less. */
function slotScore(words: ReadonlySet<string>, asked: string, isUnknown: boolean): number {
  if (words.has(asked)) return 1.5
  if (!isUnknown || asked.length < shortestMisspelt) return 0
  for (const word of words) if (isMisspelt(word, asked)) return 1
  return 0
}

function added<V>(lists: Map<string, V[]>, key: string, value: V): void {
  const list = lists.get(key)
  if (list) list.push(value)
  else lists.set(key, [value])
}

function entryOf(memory: Memory): Entry {
  const words = new Map<string, number>()
  const found = contentWords(
    `${memory.text} ${memory.value} ${memory.about === 'me' ? '' : memory.about}`,
  )
  for (const word of found) words.set(word, (words.get(word) ?? 0) + 1)
  return { memory, words, length: found.length, weight: 1 }
}

/** Shorter words are too often one letter apart. */
const shortestMisspelt = 4

/** Two long words of which one letter differs, is missing, or is there twice. */
function isMisspelt(one: string, other: string): boolean {
  if (one.length < shortestMisspelt || other.length < shortestMisspelt) return false
  if (Math.abs(one.length - other.length) > 1) return false
  if (one[0] !== other[0]) return false
  let i = 0
  while (i < one.length && one[i] === other[i]) i++
  const [a, c] = [one.slice(i), other.slice(i)]
  return (
    a.slice(1) === c.slice(1) ||
    a.slice(1) === c ||
    a === c.slice(1) ||
    (a.length > 1 && a[0] === c[1] && a[1] === c[0] && a.slice(2) === c.slice(2))
  )
}

/** How much a memory counts by its age: plans and events lose half in 90 days, facts in two years, the pinned nothing. */
function freshness({ pinned, kind, confirmed_at }: Memory, at: number): number {
  if (pinned || kind === 'preference' || kind === 'wish') return 1
  const half = kind === 'fact' ? halfLife.fact : halfLife.passing
  return 0.5 ** (Math.max(0, at - confirmed_at) / half)
}

/** How many bytes all indexes of a process take at most. */
export const mostBytes = 64 * 1024 * 1024

/** The indexes of the owners who were asked last, in memory: the one unused longest makes room. */
export class Indexes {
  readonly #indexes = new Map<string, Index>()
  #size = 0

  /** About how many bytes they take. */
  get size(): number {
    return this.#size
  }

  /** The index of an owner, where the one here is of this version; else the one that `build` makes. */
  async of(
    did: string,
    version: number,
    build: () => Promise<{
      memories: readonly Memory[]
      vectors: ReadonlyMap<string, StoredVector>
    }>,
  ): Promise<Index> {
    const known = this.#indexes.get(did)
    if (known?.version === version) {
      this.#indexes.delete(did)
      this.#indexes.set(did, known)
      return known
    }
    const { memories, vectors } = await build()
    const index = new Index(version, memories, vectors)
    this.forget(did)
    this.#indexes.set(did, index)
    this.#size += index.size
    for (const [oldest, { size }] of this.#indexes) {
      if (this.#size <= mostBytes || oldest === did) break
      this.#indexes.delete(oldest)
      this.#size -= size
    }
    return index
  }

  /** Drops the index of an owner. */
  forget(did: string): void {
    this.#size -= this.#indexes.get(did)?.size ?? 0
    this.#indexes.delete(did)
  }
}
