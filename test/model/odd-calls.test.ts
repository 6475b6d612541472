import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { type AnyPlugin, definePlugin } from '#core'
import { fakeProvider, testApp } from '#core/testing'
import { dialects, envOf, type Dialect } from '../support/dialects.ts'

const ofOwnWires = dialects.filter(({ id }) => !id.startsWith('ai-sdk/'))

/** A server with a strict provider of this dialect. */
async function opened(dialect: Dialect, plugins: readonly AnyPlugin[] = []) {
  const provider = await fakeProvider(dialect.rules)
  onTestFinished(() => provider.close())
  const app = await testApp({ plugins, env: envOf([{ dialect, provider }]) })
  onTestFinished(() => app.close())
  return { provider, app, user: await app.user('ann') }
}

// A provider refuses every later request of a session that holds a call whose name it does not take.
it.each(ofOwnWires)(
  'a call without a name, or with one that a model made up, ends no session: $name',
  async (dialect) => {
    const { provider, app, user } = await opened(dialect)
    const call = (name: string) => ({ reasoning: 'Hm.', calls: [{ name, args: { a: 1 } }] })
    provider.answer(call(''), call('functions.look up/all'), call('n'.repeat(200)), 'I give up.')
    const said = await user.say('Hello')
    expect(provider.refusals).toEqual([])
    expect(said).toMatchObject({ status: 'finished', text: expect.stringContaining('I give up.') })
    provider.answer('Still here.')
    const { sessionId } = said
    expect((await user.say('And now?', { sessionId })).status).toBe('finished')
    // The next process knows the calls from the journal.
    await app.again()
    provider.answer('And here.')
    expect((await (await app.user('ann')).say('And now?', { sessionId })).status).toBe('finished')
    expect(provider.refusals).toEqual([])
  },
)

// As a text is that was cut in the middle of an emoji: a provider refuses every later request that holds the half.
it.each(dialects)('half of an emoji ends no session: $name', async (dialect) => {
  const half = '🌍'.slice(0, 1)
  const cut = definePlugin({
    name: 'cut',
    summary: 'Cuts texts.',
    visibility: 'always',
    prompt: () => `You cut ${half}.`,
    tools: {
      cut_text: {
        description: 'Cuts a text.',
        effect: 'read',
        input: z.object({ text: z.string() }),
        run: () => `cut ${half}`,
      },
    },
  })
  const { provider, user } = await opened(dialect, [cut])
  const escaped = String.raw`a\ud800 \\ud800 🌍`
  const calls = [{ name: 'cut_text', args: { text: escaped } }]
  provider.answer({ reasoning: 'Hm.', calls }, `No ${half}.`)
  const said = await user.say('Cut')
  expect(provider.refusals).toEqual([])
  expect(said.status).toBe('finished')
  provider.answer('Still here.')
  expect((await user.say(escaped, { sessionId: said.sessionId })).status).toBe('finished')
  expect(provider.refusals).toEqual([])
  const sent = provider.requests.at(-1)?.text
  expect(sent).toContain('cut \ufffd')
  expect(sent).toContain(JSON.stringify(escaped).slice(1, -1))
})

// As half a call: the model wrote the arguments badly, or ran out of tokens in their midst.
it.each(ofOwnWires)('arguments that are no JSON end no session: $name', async (dialect) => {
  const { provider, app, user } = await opened(dialect)
  const name = 'list_capabilities'
  const half = (args: string) => ({ reasoning: 'Hm.', calls: [{ name }, { name, args }] })
  provider.answer(half('{"wo'), half('["a"]'), 'I give up.')
  const said = await user.say('Hello')
  expect(provider.refusals).toEqual([])
  expect(said).toMatchObject({ status: 'finished', text: expect.stringContaining('I give up.') })
  await app.again()
  provider.answer('And here.')
  const { sessionId } = said
  expect((await (await app.user('ann')).say('And now?', { sessionId })).status).toBe('finished')
  expect(provider.refusals).toEqual([])
})
