import { expect, it, onTestFinished } from 'vitest'
import { fakeProvider, testApp } from '#core/testing'
import { dialects, envOf, type Dialect } from '../support/dialects.ts'

const ofOwnWires = dialects.filter(({ id }) => !id.startsWith('ai-sdk/'))

/** A server with a strict provider of this dialect. */
async function opened(dialect: Dialect) {
  const provider = await fakeProvider(dialect.rules)
  onTestFinished(() => provider.close())
  const app = await testApp({ plugins: [], env: envOf([{ dialect, provider }]) })
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
