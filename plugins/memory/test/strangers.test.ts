import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'
import { countWrite } from '../kept/writes.ts'

await onEachDatabase('strangers, and limits', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  it('answers 404 for the session of somebody else, and changes nothing in it', async () => {
    const [owner, stranger] = [await open.user(), await open.user()]
    const { sessionId } = (await owner.post('/sessions')).body
    for (const id of [sessionId, 'no-such-session', `${sessionId}x`]) {
      const path = `/memory/sessions/${id}`
      const answers = [await stranger.get(path), await stranger.put(path, { incognito: true })]
      expect(answers.map(({ status }) => status)).toEqual([404, 404])
    }
    expect((await owner.get(`/memory/sessions/${sessionId}`)).body.incognito).toBe(false)
    expect(await open.self.isIncognito(owner.did, sessionId)).toBe(false)
    // Also a row of the stranger's, wherever it came from, says nothing of the owner's session.
    await open.self.setIncognito(stranger.did, sessionId, true)
    expect(await open.self.isIncognito(owner.did, sessionId)).toBe(false)
    expect(
      (await owner.put(`/memory/sessions/${sessionId}`, { incognito: true })).body.incognito,
    ).toBe(true)
  })

  it('shows, changes and erases nothing of somebody else, by no id', async () => {
    const [owner, stranger] = [await open.user(), await open.user()]
    const { id } = (await owner.post('/memory', { text: 'has a pinkish bicycle' })).body
    const { sessionId, runId } = await owner.say('Which bicycle do I have?')
    await expect
      .poll(async () => (await owner.get(`/memory/used?run=${runId}`)).body.used)
      .toMatchObject([{ id }])
    const answers = [
      await stranger.get(`/memory/${id}`),
      await stranger.patch(`/memory/${id}`, { text: 'has no bicycle' }),
      await stranger.delete(`/memory/${id}`),
    ]
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404])
    expect((await stranger.get(`/memory/used?run=${runId}`)).body).toEqual({
      used: [],
      noticed: [],
    })
    // An export that names the session and the run of somebody else gives no way into them.
    const { body } = await owner.get('/memory/export')
    const sources = [{ sessionId, runId, quote: 'has a bicycle', at: body.memories[0].validFrom }]
    const memories = [{ ...body.memories[0], sources }]
    expect((await stranger.post('/memory/import', { ...body, memories })).body.added).toBe(1)
    expect((await owner.get(`/memory/used?run=${runId}`)).body.noticed).toEqual([])
    expect((await owner.get(`/memory/sessions/${sessionId}`)).body.noticed).toEqual([])
    expect((await stranger.delete('/memory?all=true')).body).toEqual({ erased: 1 })
    expect(await open.texts(owner)).toEqual(['has a pinkish bicycle'])
  })

  it('takes 60 writes a minute of a person, over all routes and tools together', async () => {
    const [user, other] = [await open.user(), await open.user()]
    const { sessionId } = (await user.post('/sessions')).body
    const { id } = (await user.post('/memory', { text: 'likes tea' })).body
    const writes = [
      () => user.put('/memory/settings', {}),
      () => user.put(`/memory/sessions/${sessionId}`, { incognito: false }),
      () => user.patch(`/memory/${id}`, { pinned: true }),
      () => user.post('/memory/import', { version: 1, memories: [] }),
      () => user.delete('/memory/00000000-0000-4000-8000-000000000000'),
      () => user.delete('/memory'),
    ]
    // Two were made above: the settings and the memory.
    for (let i = 2; i < 60; i++) expect((await writes[i % writes.length]?.())?.status).not.toBe(429)
    for (const write of [...writes, () => user.post('/memory', { text: 'likes tea' })]) {
      const { status, body, headers } = await write()
      expect([status, body.code]).toEqual([429, 'RATE_LIMITED'])
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    }
    for (const [tool, args] of [
      ['remember', { text: 'likes cocoa' }],
      ['forget', { ids: [id] }],
      ['memory_settings', { mode: 'paused' }],
    ] as const) {
      open.replies.push({ call: tool, args }, 'Not now.')
      await user.say('I like cocoa, forget it')
      const result = open.model.requests.at(-1)?.messages.at(-1)?.content
      expect([tool, result]).toEqual([tool, expect.stringContaining('RATE_LIMITED')])
    }
    expect(await open.texts(user)).toEqual(['likes tea'])
    expect((await user.get('/memory')).status).toBe(200)
    expect((await other.put('/memory/settings', {})).status).toBe(200)
    await open.app.clock.advance('1m')
    expect((await user.put('/memory/settings', {})).status).toBe(200)
  })

  it('locks nobody out by a clock that goes back', async () => {
    const { did } = await open.user()
    const { db, now } = open.self
    for (let i = 0; i < 60; i++) await countWrite(db, did, now + 3_600_000)
    const late = countWrite(db, did, now + 3_600_000)
    await expect(late).rejects.toMatchObject({ code: 'RATE_LIMITED' })
    await countWrite(db, did, now)
  })

  it('keeps nothing sensitive, by no way, of a person who chose never', async () => {
    const user = await open.user()
    const kept = await user.post('/memory', { text: 'takes tablets for asthma' })
    expect(kept.status).toBe(201)
    const plain = (await user.post('/memory', { text: 'has a bicycle' })).body.id
    const { body } = await user.get('/memory/export')
    await user.put('/memory/settings', { sensitive: 'never' })
    const refusals = [
      await user.post('/memory', { text: 'goes to church on Sundays' }),
      await user.post('/memory', { text: 'cannot eat nuts', slot: 'allergy' }),
      await user.post('/memory', { text: 'likes tea', about: 'my gay brother' }),
      await user.patch(`/memory/${plain}`, { text: 'has diabetes' }),
      await user.patch(`/memory/${plain}`, { slot: 'medicine' }),
    ]
    for (const { status, body } of refusals)
      expect([status, body.details]).toEqual([422, { reason: 'sensitive' }])
    const imported = await user.post('/memory/import', body)
    expect(imported.body).toEqual({ added: 0, confirmed: 1, refused: { sensitive: 1 } })
    open.replies.push({ call: 'remember', args: { text: 'is a muslim' } }, 'That is not kept here.')
    await user.say('Please remember that I am a muslim')
    expect(await open.texts(user)).toEqual(['has a bicycle', 'takes tablets for asthma'])
    await user.put('/memory/settings', { sensitive: 'ask' })
    expect((await user.post('/memory', { text: 'goes to church on Sundays' })).status).toBe(201)
  })
})
