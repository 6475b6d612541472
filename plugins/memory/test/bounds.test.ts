import { randomUUID } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { Memory } from '../kept/memory.ts'
import { Indexes, mostBytes } from '../using/ranking.ts'
import { storedOf } from '../using/vectors.ts'

setFlagsFromString('--expose_gc')
const collect: unknown = runInNewContext('gc')

/** What the process holds once everything is collected that nobody needs. */
function held(): number {
  if (typeof collect !== 'function') throw new Error('There is no way to collect garbage.')
  for (let i = 0; i < 3; i++) collect()
  const { heapUsed, external, arrayBuffers } = process.memoryUsage()
  return heapUsed + external + arrayBuffers
}

const perPerson = 200
const words = 'bicycle lantern kettle drum ladder blanket mirror basket hammer violin'.split(' ')

/** The memories of a person with their vectors, none of them shared with those of another person. */
const made = (person: number) => {
  const did = `did:test:${person}`
  const memories = Array.from({ length: perPerson }, (_, i): Memory => ({
    id: randomUUID(),
    did,
    n: i + 1,
    kind: 'fact',
    about: 'me',
    slot: i % 10 === 0 ? 'likes' : null,
    value: `${words[i % 10]} ${person}`,
    text: `keeps the ${words[i % 10]} number ${i} of ${person} in room ${i % 37}`,
    by: 'noticed',
    valid_from: i,
    valid_to: null,
    denied_at: null,
    until: null,
    pinned: false,
    uses: 0,
    confirmed_at: i,
    created_at: i,
  }))
  const vectors = new Map(
    memories.map(({ id }) => [id, storedOf('lexical', new Int8Array(512).fill(person % 100))]),
  )
  return { memories, vectors }
}

it('keeps what it knows of 500 people within its bound, as the process measures it, and the latest of them', async () => {
  const indexes = new Indexes()
  const before = held()
  for (let person = 0; person < 500; person++)
    await indexes.of(`did:test:${person}`, 1, async () => made(person))
  const grown = held() - before
  expect(indexes.size).toBeLessThanOrEqual(mostBytes)
  expect(indexes.size).toBeGreaterThan(mostBytes / 2)
  expect(grown).toBeLessThan(mostBytes)
  const none = () => Promise.reject(new Error('It was dropped.'))
  expect((await indexes.of('did:test:499', 1, none)).memories).toHaveLength(perPerson)
  await expect(indexes.of('did:test:0', 1, none)).rejects.toThrow('It was dropped.')
  // A newer version is built anew, and what is forgotten takes no room.
  await expect(indexes.of('did:test:499', 2, none)).rejects.toThrow('It was dropped.')
  for (let person = 0; person < 500; person++) indexes.forget(`did:test:${person}`)
  expect(indexes.size).toBe(0)
})
