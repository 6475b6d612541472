import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

await onEachDatabase('bad input', ({ databaseUrl }) => {
  const open = new OpenMemory({ MEMORY_MAX: '5' }, databaseUrl)

  it('answers every text that is no sentence with its reason', async () => {
    const user = await open.user()
    const texts = {
      empty: ['', 400],
      'of 241 characters': ['x'.repeat(241), 422],
      'of line breaks': ['\n\n\n', 422],
      'of marks from right to left': ['\u202e\u202e\u202e\u202e', 422],
      'emoji alone': ['😀😀😀', 422],
      'with U+0000': ['lives in\0Lusaka', 400],
      'of 10,000 combining marks': [`e${'\u0301'.repeat(10_000)}`, 400],
      'of 900 combining marks': [`life${'\u0301'.repeat(900)}`, 422],
      'half a character': ['lives in \ud800 Lusaka', 400],
    } as const
    for (const [what, [text, status]] of Object.entries(texts)) {
      const { status: found, body } = await user.post('/memory', { text })
      expect([what, found]).toEqual([what, status])
      expect([what, typeof body.message, typeof body.code]).toEqual([what, 'string', 'string'])
    }
    expect((await user.get('/memory')).body.total).toBe(0)
  })

  it('refuses what no field takes, and changes nothing by it', async () => {
    const user = await open.user()
    const { id, etag } = (await user.post('/memory', { text: 'likes tea' })).body
    const past = '2001-01-01T00:00:00Z'
    const calls = [
      ['POST', '/memory', { text: 'likes tea', slot: 'no-such' }, 422],
      ['POST', '/memory', { text: 'likes tea', kind: 'rumour' }, 400],
      ['POST', '/memory', { text: 'likes tea', until: past }, 400],
      ['POST', '/memory', { text: 'likes tea', until: 'soon' }, 400],
      ['PATCH', `/memory/${id}`, { until: past }, 400],
      ['PATCH', `/memory/${id}`, { slot: 'no-such' }, 422],
      ['GET', '/memory?cursor=abc', undefined, 400],
      ['GET', '/memory?cursor=-1', undefined, 400],
      ['GET', '/memory?limit=0', undefined, 400],
      ['GET', '/memory?limit=many', undefined, 400],
      ['GET', '/memory/no-uuid', undefined, 400],
      ['DELETE', '/memory/00000000-0000-4000-8000-000000000000', undefined, 404],
      ['GET', '/memory/used', undefined, 400],
      ['PUT', '/memory/settings', { mode: 'maybe' }, 400],
      ['DELETE', '/memory', undefined, 400],
      ['POST', '/memory/import', { version: 2, memories: [] }, 400],
      ['POST', '/memory/import', { version: 1, memories: 'all' }, 400],
    ] as const
    for (const [method, path, body, status] of calls) {
      const answer = await (method === 'GET'
        ? user.get(path)
        : method === 'DELETE'
          ? user.delete(path)
          : method === 'PUT'
            ? user.put(path, body)
            : method === 'PATCH'
              ? user.patch(path, body)
              : user.post(path, body))
      expect([method, path, answer.status]).toEqual([method, path, status])
    }
    const headers = (ifMatch: string) => ({ 'if-match': ifMatch })
    for (const wrong of ['"no"', 'W/"no"', 'no quotes', '"a", "b"'])
      expect((await user.patch(`/memory/${id}`, { pinned: true }, headers(wrong))).status).toBe(412)
    // Two changes at once of one state: one is taken, the other is told.
    const both = await Promise.all(
      ['likes coffee', 'likes cocoa'].map((text) =>
        user.patch(`/memory/${id}`, { text }, headers(etag)),
      ),
    )
    expect(both.map(({ status }) => status).sort()).toEqual([200, 412])
  })

  it('takes every query for words', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'likes green tea' })
    const queries = ['"', 'a AND', 'NEAR(', "it's", '-', '*', 'the', '%00', '(', '\u202e']
    for (const query of queries) {
      const { status, body } = await user.get(`/memory?query=${encodeURIComponent(query)}`)
      expect([query, status, body.total]).toEqual([query, 200, 0])
    }
    expect((await user.get('/memory?query=text%3Atea*')).body.total).toBe(1)
    expect((await user.get(`/memory?query=${'tea+'.repeat(65_536)}`)).status).toBeGreaterThan(399)
  })

  it('is full when nothing may go, and says so; what ended makes room', async () => {
    const user = await open.user()
    for (const town of ['Lusaka', 'Ndola', 'Kitwe'])
      await user.post('/memory', { text: `lives in ${town}`, slot: 'home' })
    for (const what of ['tea', 'coffee'])
      expect((await user.post('/memory', { text: `likes ${what}` })).status).toBe(201)
    // Two homes have ended: they go first.
    expect((await user.post('/memory', { text: 'has a bicycle' })).status).toBe(201)
    expect((await user.post('/memory', { text: 'has a lantern' })).status).toBe(201)
    const full = await user.post('/memory', { text: 'has a kettle' })
    expect([full.status, full.body.code]).toEqual([409, 'MEMORY_FULL'])
    expect((await user.get('/memory')).body).toMatchObject({ total: 5, max: 5 })
  })

  it('reads what a clock heard that has gone back since, and nothing of a session that is gone', async () => {
    const user = await open.user()
    const { sessionId } = await user.say('I like cocoa.')
    await expect
      .poll(async () => (await user.get(`/memory/sessions/${sessionId}`)).body.pending, {
        timeout: 30_000,
      })
      .toBe(1)
    await open.self.db
      .updateTable('memory_passages')
      .set({ at: open.self.now + 3_600_000 })
      .where('session_id', '=', sessionId)
      .execute()
    const asked = { signal: new AbortController().signal, isLast: false }
    await open.self.notice(user.did, sessionId, asked)
    expect(await open.texts(user, '?history=true')).toEqual(['likes cocoa'])
    expect((await user.get(`/memory/sessions/${sessionId}`)).body.pending).toBe(0)
    await user.delete(`/sessions/${sessionId}`)
    await open.self.notice(user.did, sessionId, asked)
    expect((await user.get('/memory?history=true')).body.total).toBe(0)
  })
})
