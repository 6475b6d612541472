import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { type Database, definePlugin, type Turns } from '#core'
import { scriptedModel, testApp } from '#core/testing'

it('a plugin starts turns in a session that it names, and nobody else gets into it', async () => {
  const post = definePlugin({
    name: 'post',
    summary: 'Passes messages on.',
    visibility: 'silent',
    setup: ({ turns }) => turns,
    routes: {
      'POST /post': {
        auth: 'public',
        input: z.object({ did: z.string(), session: z.string(), message: z.string() }),
        async run({ did, session, message }, { self, signal }) {
          let text = ''
          for await (const { event, data } of self.start({
            user: { did },
            session,
            message,
            signal,
          }))
            if (event === 'message') text += data.content
          return { text }
        },
      },
    },
  })
  const model = scriptedModel(['Good day.', 'Good day again.'])
  await using app = await testApp({ plugins: [post], model })
  const say = (did: string, message: string) =>
    app.post('/post', { did, session: 'letters-1', message })
  expect((await say('did:key:zAmina', 'Hello')).body).toEqual({ text: 'Good day.' })
  expect((await say('did:key:zAmina', 'Hello again')).body).toEqual({ text: 'Good day again.' })
  expect(model.requests[1]!.messages.map(({ content }) => content)).toContain('Good day.')
  expect((await say('did:key:zBrian', 'Let me in')).status).toBe(404)
})

it('a plugin finds its turn again by the key it gave, and ends one that waits for a person', async () => {
  const boots: { turns: Turns; db: Database }[] = []
  const till = definePlugin({
    name: 'till',
    summary: 'Pays.',
    visibility: 'always',
    setup: ({ turns, db }) => void boots.push({ turns, db }),
    tools: {
      pay: { description: 'Pays.', approve: true, input: z.object({}), run: () => 'paid' },
    },
  })
  const model = scriptedModel([{ text: 'Paying.', calls: [{ call: 'pay' }] }, 'What else?'])
  await using _ = await testApp({ plugins: [till], model })
  const stop = new AbortController()
  const read = async (message: string, requestId: string) => {
    const events = []
    for await (const { event, data } of boots[0]!.turns.start({
      user: { did: 'did:key:zAmina' },
      session: 'till-1',
      message,
      requestId,
      signal: stop.signal,
    }))
      events.push(event === 'done' ? `done ${data.status}` : event)
    return events
  }
  const key = randomUUID()
  const first = await read('Pay', key)
  expect(first).toEqual(expect.arrayContaining(['run', 'message', 'interrupt', 'done waiting']))
  expect(await read('Pay', key)).toEqual(first)
  expect(model.requests).toHaveLength(1)
  stop.abort()
  const statuses = () =>
    boots[0]!.db
      .withTables<{ kernel_runs: { status: string } }>()
      .selectFrom('kernel_runs')
      .select('status')
      .execute()
  await expect.poll(statuses, { timeout: 10_000 }).toEqual([{ status: 'aborted' }])
})
