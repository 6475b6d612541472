import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { AskableModel } from '#core'
import type { ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory, operator } from '../../../test/support/open-memory.ts'

const faults: Readonly<Record<string, ScriptedStep>> = {
  fails: new Error('The model is not there.'),
  'answers no JSON': 'I would rather not say.',
  'answers another shape': '{"memories":"all of them"}',
  'answers nothing': '',
}
const never = () => new Promise<never>(() => undefined)

await onEachDatabase('a model that notices', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)
  const likes = (what: string) => ({
    message: 1,
    quote: `I like ${what}`,
    text: `likes ${what}`,
    kind: 'preference',
    slot: 'likes',
    value: what,
  })

  it.each(Object.keys(faults))(
    'and that %s has four attempts, then its reading is dropped; the next turn is read',
    async (fault) => {
      const user = await open.user()
      const before = await open.counts()
      open.errs(`lanterns ${fault}`, faults[fault] ?? '')
      const { sessionId } = await user.say(`I like lanterns ${fault}.`)
      const pending = async () => (await user.get(`/memory/sessions/${sessionId}`)).body.pending
      await open.heard(user, sessionId)
      await open.app.clock.advance('1h')
      await expect.poll(pending, { timeout: 30_000 }).toBe(0)
      const after = await open.counts()
      const counted = (what: string) => (after[what] ?? 0) - (before[what] ?? 0)
      expect([counted('model-calls'), counted('dropped'), counted('kept:new')]).toEqual([4, 1, 0])
      open.forgetReadings()
      open.notices('kettles', likes('kettles'))
      await user.say('I like kettles.', { sessionId })
      await open.quiet(user, sessionId)
      expect(await open.texts(user)).toEqual(['likes kettles'])
      open.forgetReadings()
    },
  )

  it('and that says too much, or some of it badly, is taken at what it says well, up to eight', async () => {
    const user = await open.user()
    const things = Array.from({ length: 12 }, (_, i) => `lamp ${'abcdefghijkl'[i]}`)
    const bad = [{}, 'likes lamps', null, { ...likes('lamp z'), kind: 'rumour' }]
    open.errs('lamp a', JSON.stringify({ memories: [...bad, ...things.map(likes)] }))
    const { sessionId } = await user.say(things.map((thing) => `I like ${thing}.`).join(' '))
    await open.quiet(user, sessionId)
    const texts = (await open.texts(user)).sort()
    expect(texts).toEqual(things.slice(0, 8).map((thing) => `likes ${thing}`))
    open.forgetReadings()
  })

  it('and that hangs keeps no turn waiting', async () => {
    const user = await open.user()
    const released = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    open.errs('drums', async () => {
      asked.resolve()
      await released.promise
      return JSON.stringify({ memories: [likes('drums')] })
    })
    const { sessionId } = await user.say('I like drums.')
    await open.heard(user, sessionId)
    const advanced = open.app.clock.advance('2m')
    await asked.promise
    // Of this person in this session, in another one, and of somebody else.
    expect((await user.say('And how are you?', { sessionId })).status).toBe('finished')
    expect((await user.say('Hello?')).status).toBe('finished')
    expect((await (await open.user()).say('Hello?')).status).toBe('finished')
    expect(await open.texts(user)).toEqual([])
    released.resolve()
    await advanced
    await expect.poll(() => open.texts(user), { timeout: 30_000 }).toEqual(['likes drums'])
    open.forgetReadings()
  })

  it('is told to the operator in figures without words', async () => {
    const user = await open.user()
    const status = async () => (await open.app.get('/memory/status', operator)).body
    const waiting = async () => (await status()).jobs.waiting
    await open.app.clock.advance('1h')
    await expect.poll(waiting, { timeout: 30_000 }).toBe(0)
    const before = await status()
    open.errs('violins', 'No.')
    const { sessionId } = await user.say('I like violins.')
    await open.heard(user, sessionId)
    expect(await waiting()).toBe(1)
    await open.app.clock.advance('1h')
    await expect.poll(waiting, { timeout: 30_000 }).toBe(0)
    const { people, memories, jobs, ms, counts } = await status()
    expect(jobs.failed).toBe(before.jobs.failed + 1)
    expect(people.on).toBeGreaterThan(0)
    expect(memories).toBe(before.memories)
    expect(ms.readings.count).toBe(before.ms.readings.count + 1)
    expect(counts['model-calls'] - before.counts['model-calls']).toBe(4)
    expect(JSON.stringify(await status())).not.toMatch(/violins|did:/)
    open.forgetReadings()
  })

  it('is not waited for without an end, whether it hears its signal or not; nothing is dropped when the server stops', async () => {
    const did = `did:test:${randomUUID()}`
    await open.self.choose(did, { mode: 'on' })
    const sessionId = randomUUID()
    const turn = { runId: randomUUID(), sessionId, did, words: 'I like tea.', reply: 'Fine.' }
    await open.self.hear(open.self.db, { ...turn, at: open.self.now - 3_600_000 })
    const unread = () => open.self.unread(sessionId)
    const object: unknown = never
    const deaf = { object } as AskableModel
    const { signal } = new AbortController()
    const read = (more: { isLast: boolean; signal: AbortSignal }) =>
      open.self.notice(did, sessionId, { model: deaf, patienceMs: 20, ...more })
    await expect(read({ isLast: false, signal })).rejects.toThrow(/timeout/)
    expect(await unread()).toBe(1)
    const stopped = AbortSignal.abort(new Error('The server stops.'))
    await expect(read({ isLast: true, signal: stopped })).rejects.toThrow('The server stops.')
    expect(await unread()).toBe(1)
    const before = (await open.counts()).dropped ?? 0
    await read({ isLast: true, signal })
    expect(await unread()).toBe(0)
    expect((await open.counts()).dropped).toBe(before + 1)
    expect(await open.self.memories.all(open.self.db, did)).toEqual([])
  })
})
