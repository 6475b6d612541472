/** How long memory takes before the first token, and how long it looks for what was said. */
import { randomUUID } from 'node:crypto'
import { markdownTable } from '../../cli/table.ts'
import type { AskableModel } from '#core'
import type { Remembering } from '../../plugins/memory/remembering.ts'
import { lexicalId, models, stored, vectorOf } from './lexical.ts'
import { random } from './people.ts'
import { written } from '../../plugins/memory/using/vectors.ts'

const memoriesOfOne = 2_000
const passages = {
  people: 5_000,
  count: Number(process.env.BENCH_PASSAGES ?? 100_000),
  ofBusiest: 5_000,
}
const perTransaction = 5_000
const things = 'bicycle lantern kettle drum ladder blanket mirror basket hammer violin'.split(' ')

/** What something took: of time, and of the processor, which does not count what other processes take. */
interface Took {
  readonly wall: number
  readonly cpu: number
}
async function took(work: () => Promise<unknown>): Promise<Took> {
  const [before, began] = [process.cpuUsage(), performance.now()]
  await work()
  const wall = performance.now() - began
  const { user, system } = process.cpuUsage(before)
  return { wall, cpu: (user + system) / 1_000 }
}
const percentile = (times: readonly number[], share: number): string =>
  (
    [...times].sort((one, other) => one - other)[Math.floor(share * (times.length - 1))] ?? 0
  ).toFixed(1)
const shown = (what: string, all: readonly Took[], goal?: number) => {
  const [wall, cpu] = [all.map((one) => one.wall), all.map((one) => one.cpu)]
  const slow = percentile(wall, 0.95)
  const judged = goal === undefined ? 'none' : `${goal}${Number(slow) > goal ? ', missed' : ''}`
  return [what, percentile(wall, 0.5), slow, percentile(cpu, 0.95), judged]
}
const columns = ['p50, ms', 'p95, ms', 'p95 of CPU, ms', 'goal of p95']
const { signal } = new AbortController()

/** A person with many memories, each with its vector. */
async function fullPerson(self: Remembering, seed: number): Promise<string> {
  const did = `did:bench:${randomUUID()}`
  const next = random(seed)
  await self.choose(did, { mode: 'on' })
  await self.alone(did, async (trx) => {
    for (let i = 0; i < memoriesOfOne; i++)
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
        }) // prettier-ignore
        .execute()
    for (const [memory_id, vector] of await stored(await self.memories.all(trx, did)))
      await trx
        .insertInto('memory_vectors')
        .values({ memory_id, did, model: lexicalId, vector: written(vector) })
        .execute()
  })
  await vectorOf('the first vector loads the code')
  return did
}

/** Prints how long a turn waits for its block, with everything that a turn does for it. */
export async function beforeFirstToken(self: Remembering, seed: number): Promise<void> {
  const did = await fullPerson(self, seed)
  const where = { did, sessionId: randomUUID(), room: '', shared: false }
  let tokens = 0
  const turn = async (question: string): Promise<void> => {
    const lack = () => Promise.reject(new Error('Each memory has its vector.'))
    const block = await self.prompt(where, {
      requestId: randomUUID(),
      question,
      models,
      signal,
      lack,
    })
    if (block === undefined) throw new Error('There is no block.')
    tokens = Math.max(tokens, Buffer.byteLength(block) / 3)
  }
  const times: { warm: Took[]; cold: Took[] } = { warm: [], cold: [] }
  for (let i = 0; i < 100; i++) {
    // A change drops the index.
    await self.choose(did, {})
    times.cold.push(await took(() => turn(`Where is my ${things[i % 10]}?`)))
  }
  for (let i = 0; i < 300; i++)
    times.warm.push(await took(() => turn(`Where is my ${things[i % 10]}?`)))
  console.log(
    markdownTable(
      [`before the first token, ${memoriesOfOne} memories`, ...columns],
      [shown('index warm', times.warm, 5), shown('index cold', times.cold, 60)],
    ),
  )
  // The turns had a model for vectors alone: any call of another one would have failed.
  console.log(
    `prompt tokens, at most: ${Math.ceil(tokens)} (goal 400); model calls for reading: 0 (goal 0), ` +
      `for keeping six turns: ${await callsToKeep(self)} (goal 1)\n`,
  )
}

/** How often a model is asked to keep what was said in six turns of a session. */
async function callsToKeep(self: Remembering): Promise<number> {
  const did = `did:bench:${randomUUID()}`
  const sessionId = randomUUID()
  await self.choose(did, { mode: 'on' })
  const at = self.now - 3_600_000
  for (let i = 0; i < 6; i++) {
    const turn = { runId: randomUUID(), sessionId, did, at: at + i, reply: 'I see.' }
    await self.hear(self.db, { ...turn, words: `I like the ${things[i]}.` })
  }
  let calls = 0
  const object: unknown = async () => (calls++, { memories: [] })
  const model = { object } as AskableModel
  for (const _ of [1, 2]) await self.notice(did, sessionId, { model, signal, isLast: true })
  return calls
}

/** Prints how long it takes to look among what many people said. */
export async function recall(self: Remembering, seed: number): Promise<void> {
  const next = random(seed)
  const words = Array.from({ length: 3_000 }, (_, i) => `word${i.toString(36)}x`)
  // As in a language: few words are everywhere, most are rare.
  const word = () => words[Math.floor(words.length * next() ** 3)] ?? ''
  const run = randomUUID()
  const didOf = (i: number) =>
    `did:bench:${run}:${i < passages.ofBusiest ? 0 : i % passages.people}`
  for (let from = 0; from < passages.count; from += perTransaction)
    await self.db.transaction().execute(async (trx) => {
      for (let i = from; i < Math.min(from + perTransaction, passages.count); i++) {
        const said = Array.from({ length: 15 }, word).join(' ')
        const runId = `${run}-${i}`
        await trx
          .insertInto('memory_passages')
          .values({
            run_id: runId,
            session_id: run,
            did: didOf(i),
            at: i,
            words: said,
            reply: '',
            read_at: i,
            findable: 1,
          }) // prettier-ignore
          .execute()
        await self.passages.add(trx, didOf(i), runId, said)
      }
    })
  // The goal is one of SQLite.
  const recallGoal = self.passages.isPostgres ? undefined : 50
  const times: { usual: Took[]; busiest: Took[] } = { usual: [], busiest: [] }
  const find = async (did: string) => {
    const question = `what did I say of ${word()} and ${word()} or ${word()}`
    const sought = { question, from: 0, to: Number.MAX_SAFE_INTEGER }
    return took(() => self.passages.find(self.db, did, sought))
  }
  for (let i = 0; i < 200; i++) {
    times.usual.push(await find(didOf(passages.ofBusiest + 1 + Math.floor(next() * 4_000))))
    times.busiest.push(await find(didOf(0)))
  }
  console.log(
    markdownTable(
      [`recall among ${passages.count} passages of ${passages.people} people`, ...columns],
      [
        shown('of a person with about 20', times.usual, recallGoal),
        shown(`of a person with ${passages.ofBusiest}`, times.busiest, recallGoal),
      ],
    ),
  )
}
