import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'
import type { Memory } from '../kept/memory.ts'
import { blockOf } from '../using/lines.ts'
import { Index } from '../using/ranking.ts'

const day = 86_400_000
const memory = (n: number, text: string, more: Partial<Memory> = {}): Memory => ({
  id: randomUUID(),
  did: 'did:test:a',
  n,
  kind: 'fact',
  about: 'me',
  slot: null,
  value: '',
  text,
  by: 'noticed',
  valid_from: n,
  valid_to: null,
  denied_at: null,
  until: null,
  pinned: false,
  uses: 0,
  confirmed_at: n,
  created_at: n,
  ...more,
})
const things = 'bicycle lantern kettle drum ladder blanket mirror basket hammer violin'.split(' ')
const two = Array.from({ length: 2_000 }, (_, i) =>
  memory(i + 1, `keeps the ${things[i % 10]} ${i} in room ${i % 37}`, {
    ...(i % 100 === 0 && { pinned: true }),
    ...(i === 1_999 && { slot: 'home', value: 'Lusaka', text: 'lives in Lusaka' }),
  }),
)
const limits = { tokens: 400, count: 12 }
const blockFor = (index: Index, question: string) =>
  blockOf([...index.standing(3_000), ...index.find(question, 3_000)], limits)

it('has at most 400 tokens and 12 lines of 2,000 memories, none of them twice', () => {
  const index = new Index(1, two)
  for (const question of ['Where is my bicycle?', 'kettle drum ladder', 'Where do I live?', '']) {
    const block = blockFor(index, question)
    const lines = block?.text.split('\n').slice(1) ?? []
    expect(lines.length).toBeGreaterThan(0)
    expect(lines.length).toBeLessThanOrEqual(limits.count)
    // Four characters are a token in the languages of providers' counts, and three are counted here.
    expect(Buffer.byteLength(block?.text ?? '') / 3).toBeLessThanOrEqual(limits.tokens + 1)
    expect(new Set(lines).size).toBe(lines.length)
  }
})

it('begins the same in two turns, whatever is asked, and has no block where nothing fits', () => {
  const few = [
    ...two.slice(1, 50),
    memory(60, 'is called Anna', { slot: 'name' }),
    memory(61, 'likes tea', { pinned: true }),
  ]
  const index = new Index(1, few)
  const [one, other] = ['my bicycle', 'the kettle in room 3'].map((question) =>
    blockFor(index, question)?.text.split('\n').slice(0, 3),
  )
  expect(one).toEqual(other)
  expect(one?.slice(1)).toEqual([
    expect.stringMatching(/^\[m61\] "likes tea"/),
    expect.stringMatching(/^\[m60\] "is called Anna"/),
  ])
  const plain = new Index(1, [memory(1, 'keeps a bicycle')])
  expect(blockFor(plain, 'What is the weather?')).toBeUndefined()
  expect(blockFor(plain, 'bicicle')?.shown).toHaveLength(1)
})

it('lets plans and events fade, and neither the pinned nor preferences', () => {
  const at = 400 * day
  const old = (n: number, more: Partial<Memory>) =>
    memory(n, `bicycle number ${n}`, { confirmed_at: at - 360 * day, valid_from: 1, ...more })
  const index = new Index(1, [
    old(1, { kind: 'plan' }),
    old(2, { kind: 'preference' }),
    old(3, { kind: 'fact' }),
    old(4, { kind: 'event', pinned: true }),
  ])
  const order = index.find('bicycle', at).map(({ n }) => n)
  expect(order.at(-1)).toBe(1)
  expect(order.indexOf(3)).toBeGreaterThan(order.indexOf(2))
})

await onEachDatabase('vectors', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  it('are made by a job, rank what is written alike, and are made anew for another model', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'repairs motorcycles' })
    await user.post('/memory', { text: 'likes tea' })
    const vectors = () =>
      open.self.db
        .selectFrom('memory_vectors')
        .select(['memory_id', 'model'])
        .where('did', '=', user.did)
        .execute()
    await user.say('Motorcyclist?')
    await expect.poll(async () => (await vectors()).length, { timeout: 30_000 }).toBe(2)
    expect((await vectors()).map(({ model }) => model)).toEqual(['lexical', 'lexical'])
    await user.say('Motorcyclist?')
    const shown = () => open.model.requests.at(-1)?.messages[0]?.content ?? ''
    expect(shown()).toContain('repairs motorcycles')
    expect(shown()).not.toContain('likes tea')
    // Another model made them: the memory ranks by words until they are made anew.
    await open.self.alone(user.did, (trx) =>
      trx
        .updateTable('memory_vectors')
        .set({ model: 'other' })
        .where('did', '=', user.did)
        .execute(),
    )
    await user.say('What about tea?')
    expect(shown()).toContain('likes tea')
    await expect
      .poll(async () => new Set((await vectors()).map(({ model }) => model)), { timeout: 30_000 })
      .toEqual(new Set(['lexical']))
    // A corrected sentence loses its vector, an erased one too.
    const [{ id }] = (await user.get('/memory')).body.memories
    await user.patch(`/memory/${id}`, { text: 'likes coffee' })
    expect(await vectors()).toHaveLength(1)
    await user.delete('/memory?all=true')
    expect(await vectors()).toEqual([])
  })
})
