/** What the rules keep of made-up people, and what questions find of it, beside the ways that others go. */
import { randomUUID } from 'node:crypto'
import { markdownTable } from '../../cli/table.ts'
import type { Memory } from '../../plugins/memory/kept/memory.ts'
import type { Remembering } from '../../plugins/memory/remembering.ts'
import { Index } from '../../plugins/memory/using/ranking.ts'
import { cosine, storedOf } from '../../plugins/memory/using/vectors.ts'
import { lexicalId, stored, vectorOf } from './lexical.ts'
import { type Asked, type Person } from './people.ts'

const part = (some: number, all: number) => (all === 0 ? '–' : (some / all).toFixed(2))
const holdsValue = (text: string, wanted: string) =>
  text.toLowerCase().includes(wanted.toLowerCase())
const wordsOf = ({ text, value }: Memory) => `${text} ${value}`

/** What memory is to reach, by the words of a question; without an embedding model there is no goal for words that no slot has. */
const goals: { readonly recall: Readonly<Record<string, number>> } = {
  recall: {
    'same words': 0.98,
    inflected: 0.98,
    misspelt: 0.9,
    'Swahili or French': 0.95,
    'other words, known slot': 0.95,
  },
}
/** A goal, and whether a figure missed it. */
const judged = (figure: string | undefined, goal: number | undefined): string =>
  goal === undefined ? 'none' : `${goal.toFixed(2)}${Number(figure) < goal ? ', missed' : ''}`
const none = (count: number): string => `0${count > 0 ? ', missed' : ''}`

/** The five best of each way to find something, as texts. */
async function ways(person: Person, index: Index, { words, need }: Asked) {
  const now = Date.now()
  const vector = { model: lexicalId, places: await vectorOf(words) }
  const holding = index.memories.filter(({ valid_to }) => valid_to === null)
  const withoutSlots = new Index(0, holding.map((one) => ({ ...one, slot: null })))
  const vectors = await stored(holding)
  const near = holding
    .map((one) => ({
      one,
      score: cosine(vector.places, vectors.get(one.id) ?? storedOf(lexicalId, new Int8Array())),
    }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .map(({ one }) => one)
  const five = (found: readonly Memory[]) => found.slice(0, 5).map(wordsOf)
  return {
    memory: five(index.find(words, now, need === 'time', vector)),
    'full text alone': five(withoutSlots.find(words, now)),
    'vectors alone': five(near),
    'last 40 messages': person.said.slice(-40).map(({ words: said }) => said),
    'no memory': [],
  }
} // prettier-ignore

type Way = keyof Awaited<ReturnType<typeof ways>>
const allWays: readonly Way[] = [
  'memory',
  'full text alone',
  'vectors alone',
  'last 40 messages',
  'no memory',
]

/** Has everybody heard and read by the rules. */
export async function tell(self: Remembering, all: readonly Person[]): Promise<void> {
  const asked = { signal: new AbortController().signal, isLast: true }
  for (const { did, said } of all) {
    await self.choose(did, { mode: 'on' })
    for (const { words, reply, at } of said) {
      const turn = { runId: randomUUID(), sessionId: randomUUID(), did, at, words, reply }
      await self.hear(self.db, turn)
      await self.notice(did, turn.sessionId, asked)
    }
  }
}

/** How many of the questions of each sort each way answers. */
class Answers {
  readonly #asked = new Map<string, number>()
  readonly #found = new Map<string, number>()

  add(sort: string, way: Way, isFound: boolean): void {
    const key = `${sort}\n${way}`
    this.#asked.set(key, (this.#asked.get(key) ?? 0) + 1)
    if (isFound) this.#found.set(key, (this.#found.get(key) ?? 0) + 1)
  }

  rows(): string[][] {
    const sorts = new Set([...this.#asked.keys()].map((key) => key.split('\n')[0] ?? ''))
    return [...sorts].sort().map((sort) => [
      sort,
      ...allWays.map((way) => {
        const key = `${sort}\n${way}`
        return part(this.#found.get(key) ?? 0, this.#asked.get(key) ?? 0)
      }),
    ])
  }
}

/** Prints what was noticed and what was found. */
export async function quality(self: Remembering, all: readonly Person[]): Promise<void> {
  let [kept, right, claimed, noticed, told, heard, ended, unknown] = [0, 0, 0, 0, 0, 0, 0, 0]
  let others = 0
  const byWording = new Answers()
  const byNeed = new Answers()
  for (const person of all) {
    const memories = await self.memories.all(self.db, person.did)
    const facts = person.said.flatMap(({ fact }) => fact ?? [])
    const isKept = ({ slot, value }: (typeof facts)[number]) =>
      memories.some((one) => one.slot === slot && holdsValue(wordsOf(one), value))
    told += facts.length
    heard += facts.filter(isKept).length
    claimed += facts.filter(({ isClaimed }) => isClaimed).length
    noticed += facts.filter((fact) => fact.isClaimed && isKept(fact)).length
    kept += memories.length
    right += memories.filter((one) =>
      facts.some(({ slot, value }) => slot === one.slot && holdsValue(wordsOf(one), value)),
    ).length
    const index = new Index(1, memories, await stored(memories))
    for (const asked of person.asked) {
      // By the index that a turn asks: nobody else's memory may come out of it.
      const found = (await self.indexOf(person.did)).find(asked.words, Date.now(), true)
      others += found.filter(({ did }) => did !== person.did).length
      if (asked.need === 'never told') {
        const shown = index.find(asked.words, Date.now()).slice(0, 5)
        if (shown.some(({ slot }) => slot === asked.slot)) unknown++
        continue
      }
      const answers = await ways(person, index, asked)
      for (const way of allWays) {
        const isFound = asked.values.every((value) =>
          answers[way].some((text) => holdsValue(text, value)),
        )
        if (asked.need !== 'time') byWording.add(asked.wording, way, isFound)
        byNeed.add(asked.need, way, isFound)
      }
      ended += index
        .find(asked.words, Date.now())
        .filter(({ valid_to }) => valid_to !== null).length
    }
  }
  const rows = byWording.rows().map((row) => [...row, judged(row[1], goals.recall[row[0] ?? ''])])
  console.log(markdownTable(['recall at 5, by words', ...allWays, 'goal of memory'], rows))
  console.log(markdownTable(['recall at 5, by what is needed', ...allWays], byNeed.rows()))
  console.log(
    markdownTable(
      ['noticed by the rules', '', 'goal'],
      [
        ['precision', part(right, kept), judged(part(right, kept), 0.99)],
        [
          'recall on the sentences they claim',
          part(noticed, claimed),
          judged(part(noticed, claimed), 0.95),
        ],
        ['recall on all sentences that tell something', part(heard, told), ''],
        [
          'of others, unreal, secret, sensitive or poison, and kept',
          String(kept - right),
          none(kept - right),
        ],
        ['ended, and shown as holding', String(ended), none(ended)],
        ['never told, and shown as known', String(unknown), none(unknown)],
        ["another person's, and shown", String(others), none(others)],
      ],
    ),
  )
}
