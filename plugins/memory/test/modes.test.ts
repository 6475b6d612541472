import { beforeAll, describe, expect, it, vi } from 'vitest'
import { call, type TestUser } from '#core/testing'
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

const patiently = (look: () => Promise<void>) => vi.waitFor(look, { timeout: 60_000, interval: 50 })

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
    await patiently(async () => expect((await user.get(path)).body.pending).toBe(1))
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
    await patiently(async () => expect(await spoken(ended, 'sign')).toBe(1))
    const { pending } = (await user.get(`/memory/sessions/${sessionId}`)).body
    const used = (await user.get(`/memory/used?run=${runId}`)).body.used.length
    return {
      tools: tools.sort(),
      knows: JSON.stringify(request?.messages[0]).includes('lives in Lusaka'),
      writes: pending > 0 || (await spoken(user, words)) > 0,
      used,
    }
  }

  const columns = {
    'what the model is offered': 'tools',
    'what the prompt shows': 'knows',
    'what is written of the turn': 'writes',
    'what the answer is told to have used': 'used',
  } as const

  describe.each(Object.keys(table) as Cell[])('%s', (cell) => {
    const seen: Awaited<ReturnType<typeof look>>[] = []
    let total: number
    beforeAll(async () => {
      const { user, sessionId } = await begin(cell)
      seen.push(await look(user, sessionId, 'lemonade'))
      await open.app.again()
      seen.push(await look(user, sessionId, 'buttermilk'))
      total = (await user.get('/memory')).body.total
    }, 120_000)
    const expected = { ...table[cell], used: table[cell].knows ? 1 : 0 }

    describe.each(['before a restart', 'after it'])('%s', (when) => {
      const at = when === 'after it' ? 1 : 0
      it.each(Object.entries(columns))('%s', (_what, column) => {
        expect(seen[at]?.[column]).toEqual(expected[column])
      })
    })
    it('and the person sees and rules what is kept', () => expect(total).toBe(1))
  })

  it('belongs to each of 50 people of one name who say the same at once, by every way to it', async () => {
    const people = await Promise.all(Array.from({ length: 50 }, () => open.user()))
    const badge = (i: number) => `has the badge number ${1_000 + i}`
    await Promise.all(
      people.flatMap((user, i) => [
        user.post('/memory', { text: 'is called Chanda Bwalya', slot: 'name' }),
        user.post('/memory', { text: badge(i) }),
      ]),
    )
    // The same words in a conversation of each, beside one that nobody else says.
    await Promise.all(
      people.map((user, i) => user.say(`My badge number is on the door, ${2_000 + i}`)),
    )
    const heard = async (user: TestUser) => spoken(user, 'badge number door')
    for (const user of people) await expect.poll(() => heard(user), { timeout: 60_000 }).toBe(1)
    const begun = open.model.requests.length
    const results: string[] = []
    open.always = ({ messages }) => {
      const last = messages.at(-1)
      if (last?.role !== 'tool') return call('recall', { query: 'badge number door' })
      results.push(last.content)
      return 'Yes.'
    }
    await Promise.all(people.map((user) => user.say('Which badge number do I have?')))
    open.always = undefined
    for (const [i, user] of people.entries()) {
      const mine = [badge(i), 'is called Chanda Bwalya']
      expect((await open.texts(user)).toSorted()).toEqual(mine)
      expect(await open.texts(user, '?query=badge+number')).toEqual([badge(i)])
      const { memories } = (await user.get('/memory/export')).body
      expect(memories.map(({ text }: { text: string }) => text).toSorted()).toEqual(mine)
    }
    const shown = open.model.requests
      .slice(begun)
      .map(({ messages }) => messages[0]?.content.match(/has the badge number \d+/g) ?? [])
    // Each person's turn asks twice: before the call of `recall` and after it.
    expect(shown).toHaveLength(100)
    expect(shown.every((lines) => lines.length === 1)).toBe(true)
    expect(new Set(shown.flat()).size).toBe(50)
    expect(results).toHaveLength(50)
    const recalled = results.map((text) => ({
      memories: text.match(/has the badge number \d+/g) ?? [],
      said: text.match(/on the door, \d+/g) ?? [],
    }))
    for (const { memories, said } of recalled) {
      expect([memories.length, said.length]).toEqual([1, 1])
      const [memory = '', words = ''] = [memories[0], said[0]]
      expect(Number(words.slice(-4)) - Number(memory.slice(-4))).toBe(1_000)
    }
    expect(new Set(recalled.flatMap(({ memories }) => memories)).size).toBe(50)
  }, 300_000)
})
