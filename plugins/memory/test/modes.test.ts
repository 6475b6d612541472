import { expect, it } from 'vitest'
import type { TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

const own = ['forget', 'memory_settings', 'recall', 'remember']

/** What each mode does: what the model is offered, whether it knows, whether what is said is kept for a reading. */
const table = {
  ask: { tools: ['memory_settings', 'remember'], knows: false, writes: false },
  on: { tools: own, knows: true, writes: true },
  paused: { tools: ['forget', 'memory_settings', 'recall'], knows: true, writes: false },
  off: { tools: ['memory_settings'], knows: false, writes: false },
  'incognito from the start': { tools: ['memory_settings'], knows: false, writes: false },
  'incognito from the middle': { tools: ['memory_settings'], knows: false, writes: false },
} as const
type Cell = keyof typeof table

await onEachDatabase('modes', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  /** A session of a new person in a mode. */
  const begin = async (cell: Cell) => {
    const user = await open.app.user()
    await user.post('/memory', { text: 'lives in Lusaka', slot: 'home' })
    const mode = cell.startsWith('incognito') ? 'on' : cell
    await user.put('/memory/settings', { mode })
    const { sessionId } = (await user.post('/sessions')).body
    const path = `/memory/sessions/${sessionId}`
    if (cell === 'incognito from the start') await user.put(path, { incognito: true })
    if (cell !== 'incognito from the middle') return { user, sessionId }
    await user.say('I like cocoa very much', { sessionId })
    await expect.poll(async () => (await user.get(path)).body.pending).toBe(1)
    // What waits to be read, and what can be found, goes.
    expect((await user.put(path, { incognito: true })).body.pending).toBe(0)
    expect(await spoken(user, 'cocoa')).toBe(0)
    return { user, sessionId }
  }
  const spoken = async ({ did }: TestUser, question: string) =>
    (await open.self.passages.find(open.self.db, did, { question, from: 0, to: 9e15 })).length

  const look = async (user: TestUser, sessionId: string, words: string) => {
    const { runId } = await user.say(`I drink ${words}. Where do I live?`, { sessionId })
    const request = open.model.requests.findLast(({ messages }) =>
      JSON.stringify(messages.at(-1)).includes(words),
    )
    const tools = (request?.tools ?? [])
      .map(({ name }) => name)
      .filter((name) => own.includes(name))
    // The end of the run is told in a transaction of its own, once it is there: another person's turn after it is a sign of that.
    const ended = await open.user()
    await ended.say('A sign')
    await expect.poll(() => spoken(ended, 'sign'), { timeout: 30_000 }).toBe(1)
    const { pending } = (await user.get(`/memory/sessions/${sessionId}`)).body
    const used = (await user.get(`/memory/used?run=${runId}`)).body.used.length
    return {
      tools: tools.sort(),
      knows: JSON.stringify(request?.messages[0]).includes('lives in Lusaka'),
      writes: pending > 0 || (await spoken(user, words)) > 0,
      used,
    }
  }

  it.each(Object.keys(table) as Cell[])(
    '%s: what is offered, shown, read and written, before and after a restart',
    async (cell) => {
      const { user, sessionId } = await begin(cell)
      const { knows } = table[cell]
      const expected = { ...table[cell], tools: [...table[cell].tools], used: knows ? 1 : 0 }
      expect(await look(user, sessionId, 'lemonade')).toEqual(expected)
      await open.app.again()
      expect(await look(user, sessionId, 'buttermilk')).toEqual(expected)
      expect((await user.get('/memory')).body.total).toBe(1)
    },
  )

  it('belongs to each of 50 people who say the same at once', async () => {
    const people = await Promise.all(Array.from({ length: 50 }, () => open.user()))
    await Promise.all(
      people.map((user, i) => user.post('/memory', { text: `has the badge number ${1_000 + i}` })),
    )
    await Promise.all(people.map((user) => user.say('Which badge number do I have?')))
    for (const [i, user] of people.entries()) {
      const mine = `has the badge number ${1_000 + i}`
      expect(await open.texts(user)).toEqual([mine])
      expect(await open.texts(user, '?query=badge+number')).toEqual([mine])
      expect((await user.get('/memory/export')).body.memories).toMatchObject([{ text: mine }])
    }
    const shown = open.model.requests
      .map(({ messages }) => messages[0]?.content.match(/has the badge number \d+/g) ?? [])
      .filter((lines) => lines.length > 0)
    expect(shown).toHaveLength(50)
    expect(shown.every((lines) => lines.length === 1)).toBe(true)
    expect(new Set(shown.flat()).size).toBe(50)
  })
})
