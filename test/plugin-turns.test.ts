import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
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
