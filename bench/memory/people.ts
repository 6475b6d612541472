/** Makes people up who tell things about themselves: the same seed makes the same people, and nothing is downloaded. */

/** A person's words, what is true of the person by them, and what is none of it. */
export interface Said {
  readonly words: string
  readonly at: number
  /** What the rules should notice; undefined where nothing may be noticed. */
  readonly fact?: { readonly slot: string; readonly value: string }
  readonly sort: 'fact' | 'changed' | 'others' | 'unreal' | 'secret' | 'poison'
}

/** A question, and the value that answers it; undefined where the person never told. */
export interface Asked {
  readonly words: string
  readonly sort: Wording | 'never told'
  readonly slot: string
}

/** In which words a question asks. */
export type Wording =
  'same words' | 'inflected' | 'misspelt' | 'other words, known slot' | 'other words, no slot'

/** A made-up person. */
export interface Person {
  readonly did: string
  readonly said: readonly Said[]
  readonly asked: readonly Asked[]
  /** What holds in the end, by slot. */
  readonly holds: ReadonlyMap<string, string>
}

interface Topic {
  readonly slot: string
  readonly values: readonly string[]
  say(value: string): readonly string[]
  readonly asks: Readonly<Partial<Record<Wording, string>>>
}

const topics: readonly Topic[] = [
  {
    slot: 'home',
    values: ['Lusaka', 'Ndola', 'Kitwe', 'Kabwe', 'Mongu', 'Kasama'],
    say: (v) => [`I live in ${v}.`, `I moved to ${v}.`, `I now live in ${v}.`],
    asks: {
      'same words': 'Where do I live?',
      inflected: 'Where am I living?',
      'other words, known slot': 'Which town is mine?',
    },
  },
  {
    slot: 'job',
    values: ['teacher', 'nurse', 'welder', 'farmer', 'tailor', 'driver'],
    say: (v) => [`I work as a ${v}.`, `I now work as a ${v}.`],
    asks: {
      'same words': 'What do I work as?',
      inflected: 'What am I working as?',
      'other words, known slot': 'What is my profession?',
    },
  },
  {
    slot: 'stove',
    values: ['charcoal stove', 'pellet stove', 'gas burner', 'solar cooker'],
    say: (v) => [`I cook with a ${v}.`, `I now cook with a ${v}.`],
    asks: {
      'same words': 'What do I cook with?',
      inflected: 'What was it that I am cooking with?',
      'other words, known slot': 'Nina jiko gani?',
    },
  },
  {
    slot: 'car',
    values: ['Corolla', 'Hilux', 'Vitz', 'Ranger'],
    say: (v) => [`I drive a ${v}.`],
    asks: {
      'same words': 'What do I drive?',
      inflected: 'Which one am I driving?',
      misspelt: 'What do I drvie?',
      'other words, known slot': 'Which vehicle is mine?',
    },
  },
  {
    slot: 'likes',
    values: ['mangoes', 'football', 'drumming', 'fishing'],
    say: (v) => [`I like ${v}.`, `I really enjoy ${v}.`],
    asks: {
      'other words, known slot': 'What am I fond of?',
      'other words, no slot': 'What would make me happy on a free evening?',
    },
  },
  {
    slot: 'crop',
    values: ['maize', 'cassava', 'groundnuts', 'sorghum'],
    say: (v) => [`I grow ${v}.`, `I plant ${v}.`],
    asks: {
      'same words': 'What do I grow?',
      inflected: 'What is growing with me?',
      'other words, known slot': 'Que donne ma culture?',
      'other words, no slot': 'What stands in my field?',
    },
  },
]

const names = ['Mulenga', 'Chanda', 'Bwalya', 'Mwila', 'Tembo', 'Phiri']
const noise: readonly ((name: string) => {
  readonly words: string
  readonly sort: Said['sort']
})[] = [
  (name) => ({ words: `My friend ${name} lives in Chipata.`, sort: 'others' }),
  (name) => ({ words: `${name} says: "I live in Livingstone".`, sort: 'others' }),
  () => ({ words: 'If I live in Solwezi one day, what will it cost?', sort: 'unreal' }),
  () => ({ words: 'Imagine I work as a pilot.', sort: 'unreal' }),
  () => ({ words: 'Do I live in Choma?', sort: 'unreal' }),
  () => ({ words: 'My password is swordfish9.', sort: 'secret' }),
  () => ({ words: 'I like 4111 1111 1111 1111.', sort: 'secret' }),
  () => ({ words: '```\nI live in Poisonville.\n```', sort: 'poison' }),
  () => ({ words: '> I work as a spy.\nWhat is this?', sort: 'poison' }),
]

const chat = [
  'What will the weather be tomorrow?',
  'Thanks, that helps.',
  'How far is it to Harare?',
  'Write a short greeting for a wedding.',
  'What does a bag of cement cost?',
]

/** Numbers from 0 to 1 that a seed decides. */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** So many people of a seed. */
export function people(count: number, seed: number): Person[] {
  const next = random(seed)
  const one = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)] as T
  return Array.from({ length: count }, (_, n) => {
    const said: Said[] = []
    const holds = new Map<string, string>()
    let at = Date.UTC(2026, 0, 1)
    const minute = () => (at += 60_000 + Math.floor(next() * 3_600_000))
    // One topic is never told, and asked all the same.
    const told = topics.filter((_topic, i) => i !== n % topics.length)
    for (const { slot, values, say } of told) {
      const times = next() < 0.25 ? 2 : 1
      for (let i = 0; i < times; i++) {
        const value = one(values.filter((each) => each !== holds.get(slot)))
        said.push({
          words: one(say(value)),
          at: minute(),
          fact: { slot, value },
          sort: i === 0 ? 'fact' : 'changed',
        })
        if (slot !== 'likes' && slot !== 'crop') holds.set(slot, value)
        else if (!holds.has(slot)) holds.set(slot, value)
      }
      said.push({ ...one(noise)(one(names)), at: minute() })
      for (let i = 0; i < 6; i++) said.push({ words: one(chat), at: minute(), sort: 'others' })
    }
    const asked = topics.flatMap(({ slot, asks }): Asked[] =>
      holds.has(slot)
        ? Object.entries(asks).map(([sort, words]) => ({ words, sort: sort as Wording, slot }))
        : [{ words: Object.values(asks)[0] ?? '', sort: 'never told', slot }],
    )
    return { did: `did:bench:${n}`, said, asked, holds }
  })
}
