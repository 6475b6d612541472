/**
 * Measures memory on people that a seed makes up: what the rules notice, what a question finds beside four baselines, what must
 * never be kept or shown, and how long it takes. It runs on SQLite, and on PostgreSQL where BENCH_DATABASE_URL names one.
 */
import { randomUUID } from 'node:crypto'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { markdownTable } from '../cli/table.ts'
import { LexicalEmbedder } from '../core/runtime/model/embed/lexical.ts'
import memory from '../plugins/memory/index.ts'
import type { Memory } from '../plugins/memory/kept/memory.ts'
import type { Remembering } from '../plugins/memory/remembering.ts'
import { blockOf } from '../plugins/memory/using/lines.ts'
import { Index } from '../plugins/memory/using/ranking.ts'
import { cosine, storedOf, type StoredVector, vectorsOf } from '../plugins/memory/using/vectors.ts'
import { people, random, type Asked, type Person } from './memory/people.ts'

const seed = Number(process.env.BENCH_SEED ?? 7)
const persons = 60
const padding = 2_000
const limits = { tokens: 400, count: 12 }
const lexical = new LexicalEmbedder()

async function vectorOf(text: string): Promise<Float32Array> {
  const { vectors } = await lexical.embed([text], { signal: new AbortController().signal })
  return vectors[0] ?? new Float32Array()
}

async function stored(memories: readonly Memory[]): Promise<Map<string, StoredVector>> {
  const made = new Map<string, StoredVector>()
  for (const { id, text } of memories) {
    const places = Int8Array.from(await vectorOf(text), (place) => Math.round(place * 127))
    made.set(id, storedOf(lexical.id, places))
  }
  return made
}

const percentile = (times: readonly number[], share: number): number =>
  [...times].sort((one, other) => one - other)[Math.floor(share * (times.length - 1))] ?? 0
const part = (some: number, all: number) => (all === 0 ? '–' : (some / all).toFixed(2))
const holdsValue = ({ text, value }: Memory, wanted: string) =>
  `${text} ${value}`.toLowerCase().includes(wanted.toLowerCase())

/** Which of the five best of each way to find have the value that answers. */
async function ways(person: Person, index: Index, { words }: Asked) {
  const now = Date.now()
  const vector = { model: lexical.id, places: await vectorOf(words) }
  const holding = index.memories.filter(({ valid_to }) => valid_to === null)
  const withoutSlots = new Index(
    0,
    holding.map((one) => ({ ...one, slot: null })),
  )
  const vectors = await stored(holding)
  const near = holding
    .map((one) => ({
      one,
      score: cosine(vector.places, vectors.get(one.id) ?? storedOf(lexical.id, new Int8Array())),
    }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .map(({ one }) => one)
  const messages = person.said.slice(-40).map(({ words: said }) => said.toLowerCase())
  return {
    memory: index.find(words, now, false, vector),
    'full text alone': withoutSlots.find(words, now),
    'vectors alone': near,
    'last 40 messages': messages,
    'no memory': [] as string[],
  }
}

type Way = keyof Awaited<ReturnType<typeof ways>>
const allWays: readonly Way[] = [
  'memory',
  'full text alone',
  'vectors alone',
  'last 40 messages',
  'no memory',
]

/** Has everybody heard and read by the rules. */
async function tell(self: Remembering, all: readonly Person[]): Promise<void> {
  const asked = { signal: new AbortController().signal, isLast: true }
  for (const { did, said } of all) {
    await self.choose(did, { mode: 'on' })
    for (const { words, at } of said) {
      const turn = { runId: randomUUID(), sessionId: randomUUID(), did, at, words, reply: 'Fine.' }
      await self.hear(self.db, turn)
      await self.notice(did, turn.sessionId, asked)
    }
  }
}

async function measure(name: string, databaseUrl: string | undefined): Promise<void> {
  let self: Remembering | undefined
  const probe = definePlugin({
    name: 'memory-probe',
    version: '1.0.0',
    summary: 'Hands the parts of memory to the bench.',
    requires: [memory],
    setup: ({ plugins }) => void (self = plugins.memory),
  })
  await using app = await testApp({
    plugins: [memory, probe],
    env: databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl },
  })
  if (!self) throw new Error(`${app.url} has no memory.`)
  const found: Remembering = self
  const all = people(persons, seed)
  await tell(found, all)
  await quality(found, all)
  await speed(found)
  console.log(`(${name}, seed ${seed}, ${persons} people)\n`)
}

async function quality(self: Remembering, all: readonly Person[]): Promise<void> {
  let [kept, right, claimed, wrong, ended, unknown] = [0, 0, 0, 0, 0, 0]
  const hits = new Map<string, Map<Way, number>>()
  const counts = new Map<string, number>()
  for (const person of all) {
    const memories = await self.memories.all(self.db, person.did)
    const facts = person.said.flatMap(({ fact }) => fact ?? [])
    claimed += facts.length
    kept += memories.length
    for (const one of memories)
      if (facts.some(({ slot, value }) => slot === one.slot && holdsValue(one, value))) right++
      else wrong++
    const index = new Index(1, memories, await stored(memories))
    for (const asked of person.asked) {
      const value = person.holds.get(asked.slot)
      const answers = await ways(person, index, asked)
      if (value === undefined) {
        if (answers.memory.slice(0, 5).some(({ slot }) => slot === asked.slot)) unknown++
        continue
      }
      counts.set(asked.sort, (counts.get(asked.sort) ?? 0) + 1)
      for (const way of allWays) {
        const list: readonly (Memory | string)[] =
          way === 'last 40 messages' ? answers[way] : answers[way].slice(0, 5)
        const isThere = list.some((one) =>
          typeof one === 'string' ? one.includes(value.toLowerCase()) : holdsValue(one, value),
        )
        const ofSort = hits.get(asked.sort) ?? new Map<Way, number>()
        if (isThere) ofSort.set(way, (ofSort.get(way) ?? 0) + 1)
        hits.set(asked.sort, ofSort)
      }
      ended += answers.memory.filter(({ valid_to }) => valid_to !== null).length
    }
  }
  const rows = [...counts].map(([sort, count]) => [
    sort,
    ...allWays.map((way) => part(hits.get(sort)?.get(way) ?? 0, count)),
  ])
  console.log(markdownTable(['recall at 5', ...allWays], rows))
  console.log(
    markdownTable(
      ['noticed by the rules', ''],
      [
        ['precision', part(right, kept)],
        ['recall on the sentences they claim', part(Math.min(right, claimed), claimed)],
        ['not said by the person, a secret or poison, and kept', String(wrong)],
        ['ended, and shown as holding', String(ended)],
        ['never told, and shown as known', String(unknown)],
      ],
    ),
  )
}

async function speed(self: Remembering): Promise<void> {
  const did = `did:bench:${randomUUID()}`
  const next = random(seed)
  const things = 'bicycle lantern kettle drum ladder blanket mirror basket hammer violin'.split(' ')
  await self.alone(did, async (trx) => {
    for (let i = 0; i < padding; i++)
      await trx
        .insertInto('memory_memories')
        .values({
          id: randomUUID(),
          did,
          n: i + 1,
          kind: 'fact',
          about: 'me',
          slot: i === 0 ? 'home' : null,
          value: '',
          text: `keeps the ${things[Math.floor(next() * 10)]} ${i} in room ${i % 37}`,
          by: 'noticed',
          valid_from: i,
          valid_to: null,
          denied_at: null,
          until: null,
          pinned: 0,
          uses: 0,
          confirmed_at: i,
          created_at: i,
        })
        .execute()
  })
  const turn = (index: Index, places: Float32Array, question: string) => {
    const vector = { model: lexical.id, places }
    return blockOf(
      [...index.standing(Date.now()), ...index.find(question, Date.now(), false, vector)],
      limits,
    )
  }
  const times: { warm: number[]; cold: number[] } = { warm: [], cold: [] }
  let tokens = 0
  for (let i = 0; i < 30; i++) {
    const began = performance.now()
    const memories = await self.memories.all(self.db, did)
    const index = new Index(1, memories, await vectorsOf(self.db, self.vault, did))
    turn(index, await vectorOf('my bicycle'), 'Where is my bicycle?')
    times.cold.push(performance.now() - began)
  }
  const memories = await self.memories.all(self.db, did)
  const index = new Index(1, memories, await stored(memories))
  for (let i = 0; i < 300; i++) {
    const began = performance.now()
    const block = turn(
      index,
      await vectorOf(`my ${things[i % 10]}`),
      `Where is my ${things[i % 10]}?`,
    )
    times.warm.push(performance.now() - began)
    tokens = Math.max(tokens, Buffer.byteLength(block?.text ?? '') / 3)
  }
  console.log(
    markdownTable(
      [`before the first token, ${padding} memories`, 'p50', 'p95'],
      (['warm', 'cold'] as const).map((sort) => [
        `${sort}, ms`,
        percentile(times[sort], 0.5).toFixed(1),
        percentile(times[sort], 0.95).toFixed(1),
      ]),
    ),
  )
  console.log(`prompt tokens, at most: ${Math.ceil(tokens)}; model calls for reading: 0`)
}

await measure('SQLite', undefined)
const url = process.env.BENCH_DATABASE_URL
if (url) await measure('PostgreSQL', url)
