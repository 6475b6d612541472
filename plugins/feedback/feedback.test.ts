import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import feedback from './index.ts'

const operatorToken = 'an-operator-of-the-feedback-tests'
const asOperator = { authorization: `Bearer ${operatorToken}` }
const well = definePlugin({
  name: 'well',
  summary: 'Wells.',
  visibility: 'always',
  tools: {
    look: { description: 'Looks.', effect: 'read', input: z.object({}), run: () => 'deep' },
  },
})

await onEachDatabase('feedback', ({ databaseUrl }) => {
  async function answered() {
    const app = await testApp({
      plugins: [feedback, well],
      model: scriptedModel([call('look', {}), 'The well is deep.']),
      clock: true,
      env: { OPERATOR_TOKEN: operatorToken, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    onTestFinished(() => app.close())
    const user = await app.user()
    const { sessionId } = await user.say('How deep is the well?')
    const ids = await idsOf(user, sessionId)
    const all = async (query = '') => {
      const response = await fetch(`${app.url}/feedback${query}`, { headers: asOperator })
      expect(response.headers.get('content-type')).toContain('application/x-ndjson')
      const lines = (await response.text()).split('\n').filter((line) => line !== '')
      return lines.map((line) => JSON.parse(line)).filter((line) => line.sessionId === sessionId)
    }
    return { app, user, sessionId, ...ids, all }
  }
  const idsOf = async (user: TestUser, sessionId: string) => {
    const { messages } = (await user.get(`/sessions/${sessionId}/messages`)).body
    return { question: messages[0].id, answer: messages.at(-1).id }
  }

  it('keeps the last word of a user on an answer, without any words of theirs unless they share them', async () => {
    const { app, user, sessionId, answer: messageId, all } = await answered()
    const say = (more: object) => user.post('/feedback', { sessionId, messageId, ...more })
    expect(await say({ rating: 'up', comment: 'a secret thought' })).toMatchObject({
      status: 200,
      body: { messageId, rating: 'up' },
    })
    const [first, ...none] = await all()
    expect(none).toEqual([])
    expect(first).toEqual({
      at: expect.any(String),
      sessionId,
      messageId,
      rating: 'up',
      tags: [],
      model: 'scripted',
      plugins: ['well'],
    })
    const share = { rating: 'down', tags: ['wrong'], comment: 'It is not.', share: true }
    expect((await say(share)).status).toBe(200)
    expect(await all()).toMatchObject([
      { rating: 'down', tags: ['wrong'], comment: 'It is not.', answer: 'The well is deep.' },
    ])
    expect(await all('?rating=up')).toEqual([])
    const later = new Date(app.clock.now().getTime() + 60_000).toISOString()
    expect(await all(`?since=${encodeURIComponent(later)}`)).toEqual([])
    const mine = await user.get(`/feedback/mine?sessionId=${sessionId}`)
    expect(mine.body).toEqual({ feedback: [{ messageId, rating: 'down' }] })
    await user.delete(`/sessions/${sessionId}`)
    expect(await all()).toMatchObject([{ answer: null }])
  })

  it('is taken back by null, exported, and erased with its user', async () => {
    const { user, sessionId, answer: messageId, all } = await answered()
    const say = (rating: string | null) => user.post('/feedback', { sessionId, messageId, rating })
    await say('up')
    expect((await say(null)).body).toEqual({ messageId, rating: null })
    expect(await all()).toEqual([])
    await say('down')
    const told = (await user.export()).filter(({ kind }) => kind === 'feedback')
    expect(told).toMatchObject([{ rating: 'down', message_id: messageId, plugins: ['well'] }])
    await user.erase()
    expect(await all()).toEqual([])
  })

  it('refuses what is no answer of the oracle to the caller, and what does not fit', async () => {
    const { app, user, sessionId, question, answer, all } = await answered()
    const stranger = await app.user()
    const to = (messageId: string, more: object = {}, by: TestUser = user) =>
      by.post('/feedback', { sessionId, messageId, rating: 'up', ...more })
    expect(await to(question)).toMatchObject({
      status: 400,
      body: { code: 'INVALID_INPUT', details: [{ path: 'messageId' }] },
    })
    expect((await to(answer, {}, stranger)).status).toBe(404)
    expect((await to('nobody-said-this')).status).toBe(404)
    expect((await to('%')).status).toBe(404)
    for (const wrong of [
      { rating: 'sideways' },
      { rating: undefined },
      { comment: 'a'.repeat(2_001) },
      { tags: Array.from({ length: 9 }, () => 'tag') },
      { tags: ['a'.repeat(41)] },
      { more: 1 },
    ])
      expect((await to(answer, wrong)).status, JSON.stringify(wrong)).toBe(400)
    expect((await to(answer, { comment: 'a'.repeat(2_000) })).status).toBe(200)
    expect((await stranger.get(`/feedback/mine?sessionId=${sessionId}`)).body.feedback).toEqual([])
    const [line] = await all()
    expect(JSON.stringify(line)).not.toContain(user.did)
  })
})
