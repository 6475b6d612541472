import { expect, it, onTestFinished } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

await onEachDatabase('an index that is late', ({ databaseUrl }) => {
  const open = new OpenMemory({ PROMPT_BUDGET_MS: '50' }, databaseUrl)

  it('is not waited for: the turn goes on without the block, and the next one has it', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'lives in Lusaka', slot: 'home' })
    const { memories } = open.self
    const { all } = memories
    const held = Promise.withResolvers<void>()
    let asked = 0
    memories.all = async (...args) => {
      asked++
      await held.promise
      return Reflect.apply(all, memories, args)
    }
    onTestFinished(() => {
      held.resolve()
      memories.all = all
    })
    const { status, sessionId } = await user.say('Where do I live?')
    expect([status, asked]).toEqual(['finished', 1])
    expect(open.model.requests.at(-1)?.messages[0]?.content).not.toContain('Lusaka')
    held.resolve()
    memories.all = all
    const shown = async () => {
      await user.say('Where do I live?', { sessionId })
      return open.model.requests.at(-1)?.messages[0]?.content
    }
    // A machine that does much else may be late again.
    await expect.poll(shown, { timeout: 60_000 }).toContain('"lives in Lusaka"')
  })
})

await onEachDatabase('the prompt of a session', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  it('begins the same in two of its turns, shows nothing twice, and has at most 12 lines, with 2,000 memories there', async () => {
    const user = await open.user()
    const at = '2026-01-01T00:00:00.000Z'
    const things = ['bicycle', 'lantern', 'kettle', 'drum', 'ladder', 'blanket', 'mirror', 'basket']
    const memories = Array.from({ length: 1_998 }, (_, i) => ({
      kind: 'fact',
      about: 'me',
      value: '',
      text: `keeps the ${things[i % 8]} number ${i} in room ${i % 37}`,
      by: 'person',
      validFrom: at,
      pinned: false,
      confirmedAt: at,
      createdAt: at,
      sources: [],
    }))
    const imported = await user.post('/memory/import', { version: 1, memories })
    expect(imported.body).toEqual({ added: 1_998, confirmed: 0, refused: {} })
    await user.post('/memory', { text: 'lives in Lusaka', slot: 'home' })
    await user.post('/memory', { text: 'likes short answers', pinned: true })
    const { sessionId } = (await user.post('/sessions')).body
    const blocks: string[][] = []
    for (const question of ['Where is my bicycle?', 'And the kettle in room 3?']) {
      await user.say(question, { sessionId })
      const prompt = open.model.requests.at(-1)?.messages[0]?.content ?? ''
      const from = prompt.indexOf('What this person told you before')
      blocks.push(
        prompt
          .slice(from)
          .split('\n')
          .filter((line, i) => i === 0 || /^\[m\d+\] /.test(line)),
      )
      // Everything before the block is the same as well: a provider finds it in its cache.
      expect(prompt.slice(0, from)).toBe(
        open.model.requests
          .find(({ messages }) => messages[0]?.content.includes('Lusaka'))
          ?.messages[0]?.content.slice(0, from),
      )
    }
    const [one = [], other = []] = blocks
    expect(one.slice(1, 3)).toEqual([
      expect.stringContaining('"likes short answers"'),
      expect.stringContaining('"lives in Lusaka"'),
    ])
    expect(other.slice(0, 3)).toEqual(one.slice(0, 3))
    expect(other).not.toEqual(one)
    for (const lines of blocks) {
      expect(lines.length - 1).toBeGreaterThan(2)
      expect(lines.length - 1).toBeLessThanOrEqual(12)
      expect(new Set(lines).size).toBe(lines.length)
      expect(Math.ceil(Buffer.byteLength(lines.join('\n')) / 3)).toBeLessThanOrEqual(400)
    }
    // Nothing that fits: no line at all.
    const stranger = await open.user()
    await stranger.post('/memory', { text: 'keeps a bicycle' })
    await stranger.say('Will it rain?')
    expect(open.model.requests.at(-1)?.messages[0]?.content).not.toContain('What this person told')
  }, 300_000)

  it('makes 2,000 vectors anew when another model makes them, and goes by words until then', async () => {
    const user = await open.user()
    const { self } = open
    const at = self.now
    await self.alone(user.did, async (trx) => {
      const there = await self.memories.all(trx, user.did)
      for (let i = 0; i < 2_000; i++)
        await self.memories.keep(
          trx,
          user.did,
          {
            kind: 'fact',
            about: 'me',
            slot: null,
            value: '',
            text: `owns lamp ${i}`,
            by: 'person',
          },
          { sessionId: '', runId: `hand-${i}-${user.did}`, quote: `owns lamp ${i}`, at },
          at,
          there,
        )
    })
    const made = async () => {
      const rows = await self.db
        .selectFrom('memory_vectors')
        .select(['model', (eb) => eb.fn.countAll<number>().as('count')])
        .where('did', '=', user.did)
        .groupBy('model')
        .execute()
      return Object.fromEntries(rows.map(({ model, count }) => [model, Number(count)]))
    }
    await user.say('Which lamp 77 do I own?')
    await expect.poll(made, { timeout: 240_000, interval: 500 }).toEqual({ lexical: 2_000 })
    await self.alone(user.did, (trx) =>
      trx
        .updateTable('memory_vectors')
        .set({ model: 'before' })
        .where('did', '=', user.did)
        .execute(),
    )
    await user.say('Which lamp 77 do I own?')
    expect(open.model.requests.at(-1)?.messages[0]?.content).toContain('"owns lamp 77"')
    await expect.poll(made, { timeout: 240_000, interval: 500 }).toEqual({ lexical: 2_000 })
  }, 600_000)
})
